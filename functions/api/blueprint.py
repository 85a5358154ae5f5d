"""The HTTP-triggered functions in front of the callers' application and the API pages."""

from __future__ import annotations

import azure.durable_functions as df
from fastapi import FastAPI

from functions.web.blueprint import HttpRoute, http_blueprint


def api_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the application twice: its health is open, everything else needs a function key."""
    methods = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
    return http_blueprint(
        application, HttpRoute("health", "health", is_open=True), HttpRoute("api", "{*route}", methods)
    )


def pages_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the API pages: they are open, the document that they show needs a function key."""
    return http_blueprint(
        application, HttpRoute("docs", "docs/{name?}", is_open=True), HttpRoute("openapi", "openapi.json")
    )
