"""The HTTP-triggered function in front of the sample services."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func
from fastapi import FastAPI

from functions.web.asgi import handler_of


def services_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the sample services; like everything that changes state, they need a function key."""
    blueprint = df.Blueprint()
    handle = handler_of(application)

    @blueprint.function_name("services")
    @blueprint.route(
        route="services/{*route}", methods=["GET", "PUT", "DELETE"], auth_level=func.AuthLevel.FUNCTION
    )
    async def services(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        return await handle(req, context)

    return blueprint
