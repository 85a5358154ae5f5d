"""Errors as problem documents (RFC 9457), without internals."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.core.error_texts import fault_message

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


@dataclass(eq=False)
class ProblemError(Exception):
    """Ends a request with a problem document.

    `kind` separates a problem from others of its status, such as `id-taken`: its `type` and `title` name it.
    """

    status: HTTPStatus
    detail: str
    _: KW_ONLY
    errors: Sequence[FieldFault] = ()
    headers: Mapping[str, str] | None = None
    kind: str | None = None


def problem(
    status: HTTPStatus,
    detail: str | None = None,
    *,
    errors: Sequence[FieldFault] = (),
    kind: str | None = None,
) -> Problem:
    """Return a problem document."""
    document = Problem(title=status.phrase, status=status, detail=detail, errors=list(errors) or None)
    if kind is not None:
        document.type = f"urn:problem-type:{kind}"
        document.title = kind.replace("-", " ").title()
    return document


def problem_of(error: Exception, *, doing: str, most_faults: int = 50) -> Problem:
    """Describe an error for a caller, with at most `most_faults` wrong fields of a body.

    An unexpected error is logged with the reference that is shown.
    """
    match error:
        case ProblemError():
            return problem(error.status, error.detail, errors=error.errors, kind=error.kind)
        case HTTPException():
            return problem(HTTPStatus(error.status_code), error.detail)
        case RequestValidationError():
            return wrong_fields(error.errors(), most_faults)
        case _:
            reference = uuid.uuid4().hex
            _log.error("%s failed, reference %s", doing, reference, exc_info=error)
            text = f"An unexpected error occurred. Its log entry has the reference {reference}."
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, text)


def faults_in(source: str, error: ValidationError) -> list[dict[str, Any]]:
    """Return the first 100 faults in `source` (such as `order`) as FastAPI lists those of a body.

    If there are more than 10,000, return one fault with their number: to list them takes too long.
    """
    count = error.error_count()
    most_listed = 10_000
    if count > most_listed:
        return [{"type": "too_many_faults", "loc": (source,), "msg": f"wrong in {count} places"}]
    faults = error.errors(include_url=False, include_context=False, include_input=False)[:100]
    places = (fault["loc"] for fault in faults)
    lists = {place[:length] for place in places for length in range(len(place))}
    # pydantic does not count wrong items: a list with one is reported as too short, too.
    kept = (fault for fault in faults if fault["type"] != "too_short" or fault["loc"] not in lists)
    return [{**fault, "loc": (source, *fault["loc"]), "msg": fault_message(fault)} for fault in kept]


def wrong_fields(faults: Sequence[Any], most: int) -> Problem:
    """Return the problem with the first `most` faults as FastAPI lists them."""
    # A fault in a field whose text is JSON names that field; the body's names a position.
    of_body = (each for each in faults if not any(isinstance(part, str) for part in each["loc"][1:]))
    if any(each["type"] == "json_invalid" for each in of_body):
        return problem(HTTPStatus.BAD_REQUEST, "The body is not JSON.")
    named = []
    for fault in faults[:most]:
        whole, *path = map(str, fault["loc"])
        named.append(FieldFault(field=".".join(path) or whole, reason=fault["msg"]))
    text = f"Some fields are wrong; errors names them, up to {most}."
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, text, errors=named)


def documented_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a route. A model for each would take half of an application's start."""
    return {status: {"description": HTTPStatus(status).phrase} for status in sorted(statuses)}


def handle_errors(
    app: FastAPI,
    *kinds: type[Exception],
    as_problem: Callable[[Exception], Exception] = lambda error: error,
) -> None:
    """Answer errors of routes with problem documents: FastAPI's own, or other `kinds` by `as_problem`."""

    async def answer(request: Request, error: Exception) -> JSONResponse:
        return answer_to(as_problem(error), request.scope)

    for kind in kinds or (ProblemError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)


def answer_to(error: Exception, scope: Scope) -> JSONResponse:
    """Return the answer to a request that ended with an error."""
    document = problem_of(error, doing=f"{scope['method']} {scope['path']}")
    later = {"Retry-After": "5"} if document.status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    further = error.headers if isinstance(error, ProblemError | HTTPException) else None
    return JSONResponse(
        document.model_dump(exclude_none=True),
        document.status,
        headers={**later, **(further or {})},
        media_type=PROBLEM_TYPE,
    )


class LastResort:
    """Answers errors without a handler: those of middleware, and unexpected ones with 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - an unexpected error can be of any type
            await answer_to(error, scope)(scope, receive, send)


def install_problems(app: FastAPI) -> None:
    """Make every error of `app` a problem document. Call it last, so that all other middleware is inside."""
    handle_errors(app)
    app.add_middleware(LastResort)
