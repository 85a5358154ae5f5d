"""Serves the console's page and files, with a policy that allows scripts of our own only.

All of it is open, since scripts and styles can't be asked for with a key, and nothing in it is secret;
what the page shows comes from the operators' interface, which asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fastapi import FastAPI

from functions.web.application import StaticFile, bare_application, serve_page, static_files
from functions.web.problems import install_problems

_FOLDER = Path(__file__).parent / "static"


def console_files() -> Mapping[str, StaticFile]:
    """Read the page, its scripts and its styles."""
    return static_files(_FOLDER)


def console_application(files: Mapping[str, StaticFile]) -> FastAPI:
    """Serve the page at `/api/ops` and its files below `/api/ops/console`."""
    app = bare_application("Console")
    install_problems(app)
    serve_page(app, "/api/ops", files, "index.html", below="/api/ops/console")
    return app
