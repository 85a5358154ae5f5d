"""JSON from outside, read by pydantic-core: finite numbers, bounded depth and number of values."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

#: The levels of objects and lists in a message, and in one field of a message.
MESSAGE_DEPTH = 100
FIELD_DEPTH = MESSAGE_DEPTH - 1

NOT_JSON = "not JSON"
TOO_DEEP = "nested too deeply"
NOT_FINITE = "not a finite number"
TOO_MANY = "too many values"

#: The least number that is too large for a double: it would be rounded to infinity.
_INFINITE = 2**1024 - 2**970


class NotJsonError(ValueError):
    """The bytes are not JSON as it is accepted here.

    `kind` is one of the constants above. `content` is None if the bytes could not be parsed.
    """

    def __init__(self, kind: str, text: str, content: object = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.content = content


def parse_json(body: bytes, most_depth: int = MESSAGE_DEPTH, most_values: int | None = None) -> Any:
    """Parse JSON. Of a name given twice, the last value counts. Raises `NotJsonError`."""
    try:
        content = from_json(body)
    except ValueError as error:
        raise NotJsonError(NOT_JSON, f"{NOT_JSON} ({error})") from None
    level, depth, values = [content], 1, 1
    while level:
        below = list[Any]()
        for value in level:
            if isinstance(value, dict | list):
                if depth > most_depth:
                    raise NotJsonError(TOO_DEEP, f"nested deeper than {most_depth} levels", content)
                below.extend(value.values() if isinstance(value, dict) else value)
            elif isinstance(value, int | float) and not -_INFINITE < value < _INFINITE:
                raise NotJsonError(NOT_FINITE, NOT_FINITE, content)
        values += len(below)
        if most_values is not None and values > most_values:
            raise NotJsonError(TOO_MANY, f"more than {most_values} values", content)
        level, depth = below, depth + 1
    return content


def lenient_json(body: bytes) -> object:
    """Parse JSON that `parse_json` may refuse, to look at it; None for anything else.

    Integers of over 19 digits are texts. Half of a surrogate pair and 9,000 levels are read, too.
    """
    most_digits = 19

    def number(text: str) -> int | str:
        return int(text) if len(text) <= most_digits else text

    try:
        return json.loads(body.decode(errors="replace").removeprefix("\ufeff"), parse_int=number)
    except (ValueError, RecursionError):
        return None
