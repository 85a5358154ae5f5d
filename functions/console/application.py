"""Serves the console's page and files, with a policy that allows scripts of our own only."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI

from functions.web.application import bare_application, serve_page, static_files
from functions.web.problems import install_problems

_FOLDER = Path(__file__).parent / "static"


def console_application() -> FastAPI:
    """Serve the page at `/api/ops` and its files below `/api/ops/console`."""
    app = bare_application("Console")
    install_problems(app)
    serve_page(app, "/api/ops", static_files(_FOLDER), "index.html", below="/api/ops/console")
    return app
