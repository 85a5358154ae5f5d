"""The HTTP-triggered function in front of the operators' application."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func
from fastapi import FastAPI


def operations_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the operators' application; it needs a function key."""
    blueprint = df.Blueprint()
    asgi = func.AsgiMiddleware(application)

    @blueprint.function_name("operations")
    @blueprint.route(route="ops/{*route}", methods=["GET", "POST"], auth_level=func.AuthLevel.FUNCTION)
    async def operations(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        return await asgi.handle_async(req, context)

    return blueprint
