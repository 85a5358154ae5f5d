"""The API pages: Swagger UI at `/api/docs`, with its files served by us, and the document that it shows.

The page and its files are open, since a browser asks for scripts without a key, and nothing in them is
secret. The document is behind the key, as the routes are that it describes; the page sends the key along.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import azure.durable_functions as df
import fastapi_offline
from fastapi import FastAPI

from functions.web.application import StaticFile, bare_application, serve_page, static_file, static_files
from functions.web.blueprint import HttpRoute, http_blueprint
from functions.web.openapi import api_document
from functions.web.problems import install_problems

#: The title of the document.
_TITLE = "Scheduler Agent Supervisor"

PAGE_PATH = "/api/docs"
DOCUMENT_PATH = "/api/openapi.json"

_PAGE = "docs.html"
_OURS = Path(__file__).parent / "static"

#: We use only the files of that package: Swagger UI, pinned with its hash as every other package.
_SWAGGER_UI = Path(fastapi_offline.__file__).parent / "static"
_SWAGGER_UI_FILES = ("swagger-ui-bundle.js", "swagger-ui.css")


def pages_blueprint(*applications: FastAPI) -> df.Blueprint:
    """Register the functions in front of the pages, which describe the routes of `applications`."""
    return http_blueprint(
        pages_application(api_document(_TITLE, *applications), page_files()),
        HttpRoute("docs", "docs/{name?}", is_open=True),
        HttpRoute("openapi", "openapi.json"),
    )


def page_files() -> Mapping[str, StaticFile]:
    """Read the page's files: ours, and those of Swagger UI."""
    swagger_ui = {name: static_file(_SWAGGER_UI / name) for name in _SWAGGER_UI_FILES}
    return {**static_files(_OURS), **swagger_ui}


def pages_application(document: dict[str, Any], files: Mapping[str, StaticFile]) -> FastAPI:
    """Serve the page, its files below it, and the OpenAPI document.

    Swagger UI's icons are data in its style sheet.
    """
    app = bare_application("API pages")
    install_problems(app)

    serve_page(app, PAGE_PATH, files, _PAGE, below=PAGE_PATH, data_images=True)

    @app.get(DOCUMENT_PATH)
    async def openapi() -> dict[str, Any]:
        """Give the OpenAPI document."""
        return document

    return app
