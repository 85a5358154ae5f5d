"""The HTTP-triggered functions in front of the console's page and files."""

from __future__ import annotations

import azure.durable_functions as df
from fastapi import FastAPI

from functions.web.blueprint import HttpRoute, http_blueprint


def console_blueprint(application: FastAPI) -> df.Blueprint:
    """Register the page and its files. They are open: a script can't be asked for with a function key."""
    return http_blueprint(
        application,
        HttpRoute("console_page", "ops", is_open=True),
        HttpRoute("console_files", "ops/console/{name}", is_open=True),
    )
