"""The functions in front of the callers' application and of the API pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import azure.durable_functions as df

from functions.web.blueprint import HttpRoute, http_blueprint

if TYPE_CHECKING:
    from starlette.types import ASGIApp


def api_blueprint(make: Callable[[], ASGIApp]) -> df.Blueprint:
    """Register the application twice: its health is open, everything else needs a function key."""
    methods = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD")
    return http_blueprint(
        make, HttpRoute("health", "health", is_open=True), HttpRoute("api", "{*route}", methods)
    )


def pages_blueprint(make: Callable[[], ASGIApp]) -> df.Blueprint:
    """Register the functions in front of the API pages.

    The page and its files are open, since a browser asks for scripts without a key, and nothing in them is
    secret. The document is behind the key, as the routes are that it describes; the page sends the key along.
    """
    return http_blueprint(
        make, HttpRoute("docs", "docs/{name?}", is_open=True), HttpRoute("openapi", "openapi.json")
    )
