"""The API pages: Swagger UI at `/api/docs`, with its files served by us, and the document that it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import FastAPI

from functions.web.application import bare_application, serve_page, static_file, static_files
from functions.web.openapi import api_document
from functions.web.problems import install_problems

_PAGE_PATH = "/api/docs"
_OURS = Path(__file__).parent / "static"

#: We use only the files of that package: Swagger UI, pinned with its hash as every other package.
_SWAGGER_UI = Path(fastapi_offline.__file__).parent / "static"
_SWAGGER_UI_FILES = ("swagger-ui-bundle.js", "swagger-ui.css")


def pages_of(*applications: FastAPI) -> FastAPI:
    """Serve the pages that describe the routes of `applications`."""
    return pages_application(api_document("Scheduler Agent Supervisor", *applications))


def pages_application(document: dict[str, Any]) -> FastAPI:
    """Serve the page, its files below it (ours, and those of Swagger UI), and the OpenAPI document."""
    app = bare_application("API pages")
    install_problems(app)
    files = {**static_files(_OURS), **{name: static_file(_SWAGGER_UI / name) for name in _SWAGGER_UI_FILES}}
    # Swagger UI's icons are data in its style sheet.
    serve_page(app, _PAGE_PATH, files, "docs.html", below=_PAGE_PATH, data_images=True)

    @app.get("/api/openapi.json")
    async def openapi() -> dict[str, Any]:
        return document

    return app
