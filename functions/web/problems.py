"""Errors as problem documents (RFC 9457), without internals."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

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


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """What tells a problem from others of its status: a `type`, which is an URI, and a `title`."""

    type: str
    title: str


@dataclass(eq=False)
class ProblemError(Exception):
    """Ends a request with a problem document: `detail`, wrong fields, headers, and a `kind` if not plain."""

    status: HTTPStatus
    detail: str
    _: KW_ONLY
    errors: Sequence[FieldFault] = ()
    headers: Mapping[str, str] | None = None
    kind: ProblemKind | None = None


def problem(
    status: HTTPStatus,
    detail: str | None = None,
    *,
    errors: Sequence[FieldFault] = (),
    kind: ProblemKind | None = None,
) -> Problem:
    """Make a problem document."""
    named, kind = list(errors[:50]) or None, kind or ProblemKind("about:blank", status.phrase)
    return Problem(type=kind.type, title=kind.title, status=status, detail=detail, errors=named)


def problem_of(error: Exception, *, doing: str, most_faults: int = 50) -> Problem:
    """Describe an error for a caller, naming `most_faults` wrong fields of a body at most.

    With more, the answer would be many times the body's size. An unexpected error is logged with the
    reference that is shown.
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
            text = f"Something went wrong here. Name reference {reference}."
            return problem(HTTPStatus.INTERNAL_SERVER_ERROR, text)


def faults_in(source: str, error: ValidationError) -> list[dict[str, Any]]:
    """Return the first 100 faults in `source` (such as `order`) as FastAPI lists those of a body.

    If there are more than 10,000, return one fault with their number: to list them takes too long.
    """
    most_listed, most = 10_000, 100
    count = error.error_count()
    if count > most_listed:
        return [{"type": "too_many_faults", "loc": (source,), "msg": f"wrong in {count} places"}]
    faults = error.errors(include_url=False, include_context=False, include_input=False)[:most]
    places = (fault["loc"] for fault in faults)
    lists = {place[:length] for place in places for length in range(len(place))}
    # pydantic does not count wrong items: a list with one is reported as too short, too.
    kept = (fault for fault in faults if fault["type"] != "too_short" or fault["loc"] not in lists)
    return [{**fault, "loc": (source, *fault["loc"])} for fault in kept]


def wrong_fields(faults: Sequence[Any], most: int) -> Problem:
    """Tell a caller which fields are wrong, at most so many, by faults as FastAPI gives them."""
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
    """Name a route's problem documents; a model for each would take half of an application's start."""
    return {status: {"description": HTTPStatus(status).phrase} for status in sorted(statuses)}


def handle_errors(app: FastAPI) -> None:
    """Make the errors that routes of `app` are expected to raise problem documents."""
    for kind in (ProblemError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    return answer_to(error, request.scope)


def answer_to(error: Exception, scope: Scope) -> JSONResponse:
    """Make the answer to a request that ended with an error."""
    document = problem_of(error, doing=f"{scope['method']} {scope['path']}")
    later = {"Retry-After": "5"} if document.status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    further = error.headers if isinstance(error, ProblemError | HTTPException) else None
    return JSONResponse(
        document.model_dump(exclude_none=True),
        document.status,
        headers={**later, **(further or {})},
        media_type=PROBLEM_TYPE,
    )
