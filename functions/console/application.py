"""Serves the console's page and files, with a policy that allows scripts of our own only."""

from __future__ import annotations

from pathlib import Path

import azure.durable_functions as df
from fastapi import FastAPI

from functions.web.application import bare_application, serve_page, static_files
from functions.web.blueprint import HttpRoute, http_blueprint
from functions.web.problems import install_problems

_FOLDER = Path(__file__).parent / "static"


def console_blueprint() -> df.Blueprint:
    """Register the functions in front of the page and of its files.

    All of it is open, since scripts and styles can't be asked for with a key, and nothing in it is secret;
    what the page shows comes from the operators' interface, which asks for one.
    """
    return http_blueprint(
        console_application(),
        HttpRoute("console_page", "ops", is_open=True),
        HttpRoute("console_files", "ops/console/{name}", is_open=True),
    )


def console_application() -> FastAPI:
    """Serve the page at `/api/ops` and its files below `/api/ops/console`."""
    app = bare_application("Console")
    install_problems(app)
    serve_page(app, "/api/ops", static_files(_FOLDER), "index.html", below="/api/ops/console")
    return app
