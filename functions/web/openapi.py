"""The one OpenAPI document of all HTTP interfaces, made from their routes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from functions.web.problems import PROBLEM_TYPE, Problem, problem

#: The version of the interfaces; a change that callers must follow makes it 2.
VERSION = "1.0.0"

_SCHEMAS = "#/components/schemas/"

#: By default the platform asks for a key in the header; with sign-in, for a token of Entra ID as well.
_SECURITY_SCHEMES = {
    "functionKey": {"type": "apiKey", "in": "header", "name": "x-functions-key"},
    "signIn": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}


def api_document(title: str, *applications: FastAPI) -> dict[str, Any]:
    """Describe every route of the applications, errors as the problem documents that they are."""
    routes = [route for application in applications for route in application.routes]
    document = get_openapi(title=title, version=VERSION, routes=routes)
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
