"""The one OpenAPI document of all HTTP interfaces, made from their routes."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts

from functions.web.problems import PROBLEM_TYPE, Problem, problem

#: The version of the interfaces; a change that callers must follow makes it 2.
VERSION = "1.0.0"

_JSON = "application/json"
_SCHEMAS = "#/components/schemas/"

#: By default the platform asks for a key in the header; with sign-in, for a token of Entra ID as well.
_SECURITY_SCHEMES = {
    "functionKey": {"type": "apiKey", "in": "header", "name": "x-functions-key"},
    "signIn": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}


def documented_answer(example: Any, status: HTTPStatus = HTTPStatus.OK) -> dict[int | str, dict[str, Any]]:
    """Describe a route's answer by an example."""
    return {status: {"content": {_JSON: {"example": example}}}}


def api_document(title: str, *applications: FastAPI) -> dict[str, Any]:
    """Describe every route of the applications, errors as the problem documents that they are."""
    routes = [route for application in applications for route in application.routes]
    document = get_openapi(title=title, version=VERSION, routes=routes)
    document["components"]["securitySchemes"] = _SECURITY_SCHEMES
    problems = Problem.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}", mode="serialization")
    document["components"]["schemas"] |= problems.pop("$defs") | {Problem.__name__: problems}
    document["security"] = [{name: []} for name in _SECURITY_SCHEMES]
    declared = {
        (route.path_format, method.lower()): route.responses
        for route in iter_route_contexts(routes)
        for method in route.methods or ()
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(operation["responses"], declared[path, method])
            operation["summary"], _, operation["description"] = operation["description"].partition("\n")
    return document


def _complete(responses: dict[str, Any], declared: Mapping[int | str, Any]) -> None:
    """Add what FastAPI leaves out: the errors' real type, and in examples the fields that are null."""
    for status, response in responses.items():
        if int(status) >= HTTPStatus.BAD_REQUEST:
            example = problem(HTTPStatus(int(status))).model_dump(exclude_none=True)
            schema = {"$ref": f"{_SCHEMAS}{Problem.__name__}"}
            response["content"] = {PROBLEM_TYPE: {"schema": schema, "example": example}}
        else:
            response["content"][_JSON] |= declared.get(int(status), {}).get("content", {}).get(_JSON, {})
