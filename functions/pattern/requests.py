"""Requests to Agents, their results, and what else is made here, as JSON; refused when that can't be."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError
from functions.pattern.records import MAX_RESULT_BYTES
from functions.pattern.strict_json import FIELD_DEPTH, TOO_DEEP, NotJsonError, parse_json

#: A message on Service Bus holds 256 KB (Standard tier); a service should get no more over HTTP.
MAX_REQUEST_BYTES = 64 * 1024


def request_bytes(request: Json) -> bytes:
    """Write a request as JSON. Raises `PermanentError`, which names the field, or the size."""
    return json_bytes("request", request, MAX_REQUEST_BYTES)


def result_bytes(result: object) -> bytes:
    """Write a step's result as it is recorded. Raises `PermanentError` as above, of whatever was given."""
    given: Any = dict(result) if isinstance(result, Mapping) else result
    return json_bytes("result", given, MAX_RESULT_BYTES, separators=(",", ":"))


def json_bytes(name: str, value: Json, most: int, *, separators: tuple[str, str] | None = None) -> bytes:
    """Write what is called `name` as JSON of at most `most` bytes. Raises `PermanentError` as above.

    A definition's function makes the value, so it may be anything.
    """
    if not isinstance(value, dict):
        raise PermanentError(f"its {name} is of type {type(value).__name__}, not a dict")
    if odd := [type(each).__name__ for each in value if not isinstance(each, str)]:
        reason = f"a field's name is of type {odd[0]}, not str"
        raise PermanentError(f"its {name} can't be written as JSON: {reason}")
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=separators).encode()
    except (TypeError, ValueError, RecursionError) as fault:
        raise PermanentError(f"its {name} can't be written as JSON: {_reason(name, value, fault)}") from None
    if len(written) > most:
        raise PermanentError(f"its {name} has {len(written)} bytes; at most {most} can be sent")
    _check_reading(name, written)
    return written


def _check_reading(name: str, written: bytes) -> None:
    """Read what was written, as its readers will: Python writes more than they take."""
    try:
        parse_json(written, FIELD_DEPTH)
    except NotJsonError as error:
        is_too_deep = error.kind == TOO_DEEP
        text = f"is {error}" if is_too_deep else f"can't be written as JSON: {error}"
        raise PermanentError(f"its {name} {text}") from None


def _reason(name: str, value: Json, fault: Exception) -> str:
    try:
        return next(_faults(name, value), str(fault))
    except RecursionError:
        return "it is nested too deeply, or in itself"


def _faults(place: str, value: Any) -> Iterator[str]:
    """Say of each value that JSON does not have where it is and what; none of their texts is shown."""
    match value:
        case dict():
            for name, each in value.items():
                yield from _faults(f"{place}.{name}", each)
        case list() | tuple():
            for number, each in enumerate(value):
                yield from _faults(f"{place}[{number}]", each)
        case float() if not math.isfinite(value):
            yield f"{place} is {value}"
        case str() | int() | float() | None:
            return
        case _:
            yield f"{place} is of type {type(value).__name__}"
