"""Errors as problem documents (RFC 9457), without anything of the inside."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.pattern.errors import PayloadTooLargeError, TransientError

PROBLEM_TYPE = "application/problem+json"

_log = logging.getLogger(__name__)


class FieldFault(BaseModel):
    """One field that is wrong, and why."""

    field: str
    reason: str


class Problem(BaseModel):
    """A problem document."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str | None = None
    errors: list[FieldFault] | None = None


class ProblemError(Exception):
    """Ends a request with a problem document."""

    def __init__(self, status: HTTPStatus, detail: str, *, errors: Sequence[FieldFault] = ()) -> None:
        """Keep what the caller is told: `detail`, and the fields that are wrong."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = list(errors)


def problem_response(
    status: HTTPStatus, detail: str | None = None, *, errors: Sequence[FieldFault] = ()
) -> JSONResponse:
    """Make the answer that carries a problem document."""
    problem = Problem(
        title=status.phrase, status=status, detail=detail, errors=list(errors) if errors else None
    )
    headers = {"Retry-After": "5"} if status is HTTPStatus.SERVICE_UNAVAILABLE else None
    return JSONResponse(
        problem.model_dump(exclude_none=True), status, headers=headers, media_type=PROBLEM_TYPE
    )


def documented_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe a route's problem documents, for its OpenAPI document."""
    return {
        status: {
            "model": Problem,
            "description": HTTPStatus(status).phrase,
            "content": {PROBLEM_TYPE: {"schema": Problem.model_json_schema()}},
        }
        for status in statuses
    }


def install_problems(app: FastAPI) -> None:
    """Make every error of `app` a problem document."""
    app.add_middleware(LastResort)

    @app.exception_handler(ProblemError)
    async def known(_request: Request, error: ProblemError) -> JSONResponse:
        return problem_response(error.status, error.detail, errors=error.errors)

    @app.exception_handler(TransientError)
    async def unavailable(_request: Request, error: TransientError) -> JSONResponse:
        _log.warning("unavailable: %s", error)
        text = "A service that is needed does not answer. Try again; the same id is safe to repeat."
        return problem_response(HTTPStatus.SERVICE_UNAVAILABLE, text)

    @app.exception_handler(PayloadTooLargeError)
    async def too_large(_request: Request, error: PayloadTooLargeError) -> JSONResponse:
        return problem_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error))

    @app.exception_handler(HTTPException)
    async def http(_request: Request, error: HTTPException) -> JSONResponse:
        return problem_response(HTTPStatus(error.status_code), error.detail)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        faults = error.errors()
        if any(fault["type"] == "json_invalid" for fault in faults):
            return problem_response(HTTPStatus.BAD_REQUEST, "The body is not JSON.")
        return problem_response(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "Some fields are wrong; each is named in errors.",
            errors=[_field_fault(fault) for fault in faults],
        )


class LastResort:
    """Answers 500 for what nobody expected; the reference finds the error in the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and keep its failure from the caller."""
        try:
            await self._app(scope, receive, send)
        except Exception:  # noqa: BLE001 - what nobody expected has no type
            reference = uuid.uuid4().hex
            _log.exception("request %s %s failed, reference %s", scope["method"], scope["path"], reference)
            text = f"Something went wrong here. Name reference {reference}."
            await problem_response(HTTPStatus.INTERNAL_SERVER_ERROR, text)(scope, receive, send)


def _field_fault(fault: dict[str, Any]) -> FieldFault:
    _source, *path = fault["loc"]
    return FieldFault(field=".".join(map(str, path)) or "body", reason=fault["msg"])
