"""The HTTP-triggered functions in front of the console's page and files."""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func
from fastapi import FastAPI

from functions.web.asgi import handler_of


def console_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the page and its files. They are open: a script can't be asked for with a function key."""
    blueprint = df.Blueprint()
    handle = handler_of(application)

    @blueprint.function_name("console_page")
    @blueprint.route(route="ops", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    async def console_page(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        return await handle(req, context)

    @blueprint.function_name("console_files")
    @blueprint.route(route="ops/console/{name}", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    async def console_files(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
        return await handle(req, context)

    return blueprint
