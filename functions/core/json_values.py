"""JSON texts of requests, results and outputs, bounded error texts, and digests of items."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel, BeforeValidator
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

#: Bytes of UTF-16 of a request, a result or an output. A row (1 MiB) holds those of several operations.
MOST_TEXT_BYTES = 60_000
#: Bytes of UTF-8 of an error text in the record.
MOST_ERROR_BYTES = 1024
#: Levels of objects and lists in a request, a result or an output.
_MOST_DEPTH = 99
#: The smallest integer that a double cannot hold: readers would round it to infinity.
TOO_LARGE = 2**1024 - 2**970
_ALWAYS_FIT = frozenset({str, bool, type(None)})
# Possessive, since backtracking would take the square of the length of the text.
_NUMBER = re.compile(r"[+-]?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?+\d++)?+", re.ASCII)


class UnfitValueError(ValueError):
    """A value cannot be recorded as JSON. The text names the place and the reason."""


def json_text(name: str, value: object, most: int = MOST_TEXT_BYTES) -> str:
    """Return a dict as compact JSON of at most `most` bytes in UTF-16.

    `name` is its name in error texts. A function of a definition makes the value, so it may be anything.
    Raises `UnfitValueError`, whose text names members of the dict and nothing below: that may be secret.
    """
    if not isinstance(value, dict):
        raise UnfitValueError(f"the {name} is of type {type(value).__name__}: return a dict")
    fault = _fault(name, value)
    if fault is not None:
        raise UnfitValueError(fault)
    try:
        text = to_json(value).decode()
    except PydanticSerializationError:
        raise UnfitValueError(f"the {name} holds half of a character (a lone surrogate)") from None
    size = 2 * len(text) if text.isascii() else len(text.encode("utf-16-le"))
    if size > most:
        raise UnfitValueError(f"the {name} has {size} bytes in UTF-16; the limit is {most}")
    return text


def _fault(name: str, value: object) -> str | None:
    """Return a member that JSON cannot hold and the fix, without any text of a value."""
    waiting: list[tuple[str, Any, int]] = [(name, value, 1)]
    while waiting:
        place, each, depth = waiting.pop()
        if isinstance(each, dict | list | tuple):
            if depth > _MOST_DEPTH:
                return f"{place} is nested deeper than {_MOST_DEPTH} levels"
            members = each.items() if isinstance(each, dict) else (("", item) for item in each)
            for key, member in members:
                if not isinstance(key, str):
                    return f"{place} has a name of type {type(key).__name__}: use str"
                if type(member) not in _ALWAYS_FIT:
                    waiting.append((f"{place}.{key}" if depth == 1 else place, member, depth + 1))
        elif isinstance(each, float | int) and not -TOO_LARGE < each < TOO_LARGE:
            return f"{place} has a number that is no finite double: use a smaller number or a text"
        elif not isinstance(each, str | float | int | None):
            return f"{place} has a value of type {type(each).__name__}, which JSON cannot hold"
    return None


def bounded(text: str, most: int = MOST_ERROR_BYTES) -> str:
    """Return a printable text of at most `most` bytes in UTF-8; a cut text ends with "…"."""
    printable = "".join(each if each.isprintable() else " " for each in text[: most + 1])
    if len(printable.encode()) <= most:
        return printable
    return printable.encode()[: most - len("…".encode())].decode(errors="ignore") + "…"


def _check_digits(value: object) -> object:
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError("a number in digits, such as 4.90")
    return value


#: Annotates a number that may be sent as text: `1_0`, digits of other scripts and blanks are rejected.
PLAIN_NUMBER = BeforeValidator(_check_digits)


def item_digest(item: object) -> str:
    """Return a digest of a for-each item that is equal in every process. Raises the errors of pydantic."""
    text = json.dumps(_canonical(item), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _canonical(value: Any) -> Any:
    match value:
        case BaseModel():
            return {name: _canonical(getattr(value, name)) for name in value.model_fields_set}
        case Mapping():
            return {str(name): _canonical(member) for name, member in value.items()}
        case set() | frozenset():
            return sorted(map(_canonical, value), key=lambda each: json.dumps(each, sort_keys=True))
        case list() | tuple():
            return [_canonical(item) for item in value]
        case _ if is_dataclass(value):
            return {each.name: _canonical(getattr(value, each.name)) for each in fields(value)}
        case _:
            return to_jsonable_python(value)
