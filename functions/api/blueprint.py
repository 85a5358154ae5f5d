"""The HTTP-triggered functions in front of the callers' application and the API pages."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func
from fastapi import FastAPI

from functions.web.asgi import handler_of


def api_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the application twice: its health is open, everything else needs a function key."""
    blueprint = df.Blueprint()
    handle = handler_of(application)

    @blueprint.function_name("health")
    @blueprint.route(route="health", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    async def health(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        return await handle(req, context)

    @blueprint.function_name("api")
    @blueprint.route(
        route="{*route}",
        methods=["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"],
        auth_level=func.AuthLevel.FUNCTION,
    )
    async def api(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        return await handle(req, context)

    return blueprint


def pages_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the API pages: they are open, the document that they show needs a function key."""
    blueprint = df.Blueprint()
    handle = handler_of(application)

    @blueprint.function_name("docs")
    @blueprint.route(route="docs/{name?}", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    async def docs(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        return await handle(req, context)

    @blueprint.function_name("openapi")
    @blueprint.route(route="openapi.json", methods=["GET"], auth_level=func.AuthLevel.FUNCTION)
    async def openapi(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        return await handle(req, context)

    return blueprint
