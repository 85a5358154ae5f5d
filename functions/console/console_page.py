"""The application that serves the operators' console: a page, its scripts and its styles, without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def console_application() -> FastAPI:
    """Return the application with the page at `/api/ops` and its files below `/api/ops/console`."""
    # FastAPI is imported with the first request.
    from functions.web.access import install_problems  # noqa: PLC0415
    from functions.web.application import bare_application, serve_page, static_files  # noqa: PLC0415

    app = bare_application("Console")
    install_problems(app)
    files = static_files(Path(__file__).parent / "static")
    serve_page(app, "/api/ops", files, "index.html", below="/api/ops/console")
    return app
