"""The API pages: Swagger UI at `/api/docs`, with its files served by us, and the document that it shows.

The page and its files are open, since a browser asks for scripts without a key, and nothing in them is
secret. The document is behind the key, as the routes are that it describes; the page sends the key along.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import fastapi_offline
from fastapi import FastAPI, Header, Response

from functions.web.application import bare_application
from functions.web.problems import ProblemError, install_problems
from functions.web.static_files import StaticFile, static_file, static_files

#: The title of the document.
TITLE = "Scheduler Agent Supervisor"

PAGE_PATH = "/api/docs"
DOCUMENT_PATH = "/api/openapi.json"

_PAGE = "docs.html"
_OURS = Path(__file__).parent / "static"

#: Of that package we use the files alone: Swagger UI, pinned with its hash as every other package.
_SWAGGER_UI = Path(fastapi_offline.__file__).parent / "static"
_SWAGGER_UI_FILES = ("swagger-ui-bundle.js", "swagger-ui.css")

#: Swagger UI's style sheet holds its icons as data; it needs no inline script, and sets styles by script.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

_Tag = Annotated[str | None, Header(alias="If-None-Match")]


def page_files() -> Mapping[str, StaticFile]:
    """Read the page's files: ours, and those of Swagger UI."""
    swagger_ui = {name: static_file(_SWAGGER_UI / name) for name in _SWAGGER_UI_FILES}
    return {**static_files(_OURS), **swagger_ui}


def pages_application(document: dict[str, Any], files: Mapping[str, StaticFile]) -> FastAPI:
    """Serve the page, its files below it, and the OpenAPI document."""
    app = bare_application("API pages")
    install_problems(app)

    @app.get(PAGE_PATH)
    async def page(known: _Tag = None) -> Response:
        """Give the page."""
        return files[_PAGE].answer(known, _POLICY)

    @app.get(f"{PAGE_PATH}/{{name}}")
    async def file(name: str, known: _Tag = None) -> Response:
        """Give one of its files."""
        if name not in files:
            raise ProblemError(HTTPStatus.NOT_FOUND, "The page has no such file.")
        return files[name].answer(known, _POLICY)

    @app.get(DOCUMENT_PATH)
    async def openapi() -> dict[str, Any]:
        """Give the OpenAPI document."""
        return document

    return app
