"""The functions in front of the operators' console."""

from __future__ import annotations

from typing import TYPE_CHECKING

import azure.durable_functions as df

from functions.web.blueprint import HttpRoute, http_blueprint

if TYPE_CHECKING:
    from fastapi import FastAPI


def console_blueprint() -> df.Blueprint:
    """Register the functions in front of the page and of its files.

    All of it is open, since scripts and styles can't be asked for with a key, and nothing in it is secret;
    what the page shows comes from the operators' interface, which asks for one.
    """
    return http_blueprint(
        _application,
        HttpRoute("console_page", "ops", is_open=True),
        HttpRoute("console_files", "ops/console/{name}", is_open=True),
    )


def _application() -> FastAPI:
    from functions.console.application import console_application  # noqa: PLC0415 - with its first request

    return console_application()
