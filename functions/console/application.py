"""Serves the console's page and files, with a policy that keeps strange scripts out.

All of it is open, since scripts and styles can't be asked for with a key, and nothing in it is secret;
what the page shows comes from the operators' interface, which asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Header, Response

from functions.web.application import bare_application
from functions.web.problems import ProblemError, install_problems
from functions.web.static_files import StaticFile, static_files

_FOLDER = Path(__file__).parent / "static"
_PAGE = "index.html"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

_Tag = Annotated[str | None, Header(alias="If-None-Match")]


def console_files() -> Mapping[str, StaticFile]:
    """Read the page, its scripts and its styles."""
    return static_files(_FOLDER)


def console_application(files: Mapping[str, StaticFile]) -> FastAPI:
    """Serve the page at `/api/ops` and its files below `/api/ops/console`."""
    app = bare_application("Console")
    install_problems(app)

    @app.get("/api/ops")
    async def page(known: _Tag = None) -> Response:
        """Give the page."""
        return files[_PAGE].answer(known, _POLICY)

    @app.get("/api/ops/console/{name}")
    async def file(name: str, known: _Tag = None) -> Response:
        """Give one of its files."""
        if name not in files:
            raise ProblemError(HTTPStatus.NOT_FOUND, "The console has no such file.")
        return files[name].answer(known, _POLICY)

    return app
