"""Reads requests of the management API: flags, numbers, filters, times, JSON bodies."""

from __future__ import annotations

import json

from aiohttp import web

from functions_local.durable.event_json import to_json
from functions_local.durable.events import RuntimeStatus
from functions_local.durable.queries import InstanceFilter
from functions_local.durable.refusals import BadRequestError
from functions_local.times import from_text, to_text

#: The largest number in a query: .NET's largest `int`.
_LARGEST = 2**31 - 1


def flag(request: web.Request, name: str, *, default: bool) -> bool:
    """Read a query parameter that is true or false."""
    return request.query.get(name, str(default)).lower() == "true"


def number(request: web.Request, name: str, default: float) -> float:
    """Read a query parameter that is a number from 0 on. Raises BadRequestError."""
    text = request.query.get(name, str(default))
    try:
        value = float(text)
    except ValueError as error:
        raise BadRequestError(f"The parameter '{name}' must be a number, not '{text}'.") from error
    if not 0 <= value <= _LARGEST:
        raise BadRequestError(f"The parameter '{name}' must be from 0 to {_LARGEST}, not '{text}'.")
    return value


def instance_filter(request: web.Request) -> InstanceFilter:
    """Read the filter of a list or purge request. Raises BadRequestError."""
    return InstanceFilter(
        created_from=_moment(request, "createdTimeFrom"),
        created_to=_moment(request, "createdTimeTo"),
        statuses=[_status(name) for name in request.query.get("runtimeStatus", "").split(",") if name],
        id_prefix=request.query.get("instanceIdPrefix", ""),
    )


async def json_body(request: web.Request) -> str | None:
    """Return the body as compact JSON text, or None if there is none. Raises BadRequestError.

    A string with JSON in it stays a string: the SDK encodes twice and decodes twice.
    """
    try:
        text = await request.text()
        return to_json(json.loads(text)) if text else None
    except (ValueError, LookupError, RecursionError) as error:  # no JSON, unknown charset, nested too deeply
        raise BadRequestError(f"The request body is not JSON: {error}") from error


def _moment(request: web.Request, name: str) -> str | None:
    text = request.query.get(name)
    if not text:
        return None
    try:
        return to_text(from_text(text))
    except (ValueError, OverflowError) as error:
        raise BadRequestError(f"The parameter '{name}' must be an ISO 8601 time, not '{text}'.") from error


def _status(name: str) -> RuntimeStatus:
    for status in RuntimeStatus:
        if status.name.lower() == name.strip().lower():
            return status
    names = ", ".join(status.name for status in RuntimeStatus)
    raise BadRequestError(f"The runtimeStatus '{name}' is not one of {names}.")
