"""The API pages: Swagger UI at `/api/docs`, with its files served by us, and the document that it shows."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any

import fastapi_offline
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from functions.http.application import bare_application, serve_page, static_file, static_files
from functions.http.problems import PROBLEM_TYPE, Problem, install_problems, problem

_SCHEMAS = "#/components/schemas/"

#: By default the platform requires a key in the header; with sign-in, a token of Entra ID as well.
_SECURITY_SCHEMES = {
    "functionKey": {"type": "apiKey", "in": "header", "name": "x-functions-key"},
    "signIn": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}


def api_document(title: str, *applications: FastAPI) -> dict[str, Any]:
    """Describe every route of the applications, errors as the problem documents that they are."""
    routes = [route for application in applications for route in application.routes]
    # A change that callers must follow makes the version 2.
    document = get_openapi(title=title, version="1.0.0", routes=routes)
    document["components"]["securitySchemes"] = _SECURITY_SCHEMES
    problems = Problem.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}", mode="serialization")
    document["components"]["schemas"] |= problems.pop("$defs") | {Problem.__name__: problems}
    document["security"] = [{name: []} for name in _SECURITY_SCHEMES]
    for operations in document["paths"].values():
        for operation in operations.values():
            _describe_problems(operation["responses"])
            operation["summary"], _, operation["description"] = operation["description"].partition("\n")
    return document


def _describe_problems(responses: dict[str, Any]) -> None:
    """Describe the errors' real type, which FastAPI leaves out."""
    for status, response in responses.items():
        if int(status) >= HTTPStatus.BAD_REQUEST:
            example = problem(HTTPStatus(int(status))).model_dump(exclude_none=True)
            schema = {"$ref": f"{_SCHEMAS}{Problem.__name__}"}
            response["content"] = {PROBLEM_TYPE: {"schema": schema, "example": example}}


#: Only the files of Swagger UI are used of that package.
_SWAGGER_UI = Path(fastapi_offline.__file__).parent / "static"
_SWAGGER_UI_FILES = ("swagger-ui-bundle.js", "swagger-ui.css")


def pages_application(document: dict[str, Any]) -> FastAPI:
    """Serve the page, its files below it (ours, and those of Swagger UI), and the OpenAPI document."""
    app = bare_application("API pages")
    install_problems(app)
    ours = static_files(Path(__file__).parent / "static")
    files = {**ours, **{name: static_file(_SWAGGER_UI / name) for name in _SWAGGER_UI_FILES}}
    # Swagger UI's icons are data in its style sheet.
    serve_page(app, "/api/docs", files, "docs.html", below="/api/docs", data_images=True)

    @app.get("/api/openapi.json")
    async def openapi() -> dict[str, Any]:
        return document

    return app
