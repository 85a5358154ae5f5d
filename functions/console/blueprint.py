"""The functions in front of the operators' console, and the application that serves its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import azure.durable_functions as df

from functions.web.blueprint import HttpRoute, http_blueprint

if TYPE_CHECKING:
    from fastapi import FastAPI


def console_blueprint() -> df.Blueprint:
    """Register the page and its files: open, since a browser sends no key for them; nothing is secret."""
    return http_blueprint(
        console_application,
        HttpRoute("console_page", "ops", is_open=True),
        HttpRoute("console_files", "ops/console/{name}", is_open=True),
    )


def console_application() -> FastAPI:
    """Serve the page at `/api/ops` and its files below `/api/ops/console`."""
    # With the first request: they import FastAPI.
    from functions.web.application import bare_application, serve_page, static_files  # noqa: PLC0415
    from functions.web.problems import install_problems  # noqa: PLC0415

    app = bare_application("Console")
    install_problems(app)
    files = static_files(Path(__file__).parent / "static")
    serve_page(app, "/api/ops", files, "index.html", below="/api/ops/console")
    return app
