"""JSON from outside, read by pydantic-core: finite numbers, bounded depth and number of values."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from pydantic_core import from_json

from functions.pattern.texts import bounded

#: The levels of objects and lists in a message, and in one field of a message.
MESSAGE_DEPTH = 100
FIELD_DEPTH = MESSAGE_DEPTH - 1

NOT_JSON = "not JSON"
TOO_DEEP = "nested too deeply"
NOT_FINITE = "not a finite number"
TOO_MANY = "too many values"

_MOST_NAME_BYTES = 64
_MOST_PLACE_BYTES = 256

type Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FaultAt:
    """A fault in a message and its place. `kind` is one of a few texts, whatever the message holds."""

    place: Place
    kind: str
    text: str

    def told(self, most_name_bytes: int) -> str:
        """Return the place, with each name cut to `most_name_bytes`, and the fault."""
        return ": ".join(filter(None, (_shown(self.place, most_name_bytes), self.text)))

    def __str__(self) -> str:
        return self.told(_MOST_NAME_BYTES)


class NotJsonError(ValueError):
    """The bytes are not JSON as it is accepted here. `content` is None if they could not be parsed."""

    def __init__(self, fault: FaultAt, content: object = None) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.content = content


def parse_json(body: bytes, most_depth: int = MESSAGE_DEPTH, most_values: int | None = None) -> Any:
    """Parse JSON. Of a name given twice, the last value counts. Raises `NotJsonError`."""
    try:
        content = from_json(body)
    except ValueError as error:
        raise NotJsonError(FaultAt((), NOT_JSON, f"{NOT_JSON} ({error})")) from None
    fault = _fault_in(content, most_depth, most_values)
    if fault is not None:
        raise NotJsonError(fault, content)
    return content


def _fault_in(content: Any, most_depth: int, most_values: int | None) -> FaultAt | None:
    """Find a number that no double can hold, more levels than `most_depth`, more than `most_values`."""
    levels, values = [[content]], 1
    while levels[-1]:
        below = list[Any]()
        for number, value in enumerate(levels[-1]):
            if isinstance(value, dict | list):
                if len(levels) > most_depth:
                    text = f"nested deeper than {most_depth} levels"
                    return FaultAt(_place_of(number, levels), TOO_DEEP, text)
                below.extend(value.values() if isinstance(value, dict) else value)
            elif isinstance(value, int | float) and not _is_finite(value):
                return FaultAt(_place_of(number, levels), NOT_FINITE, NOT_FINITE)
        values += len(below)
        if most_values is not None and values > most_values:
            return FaultAt((), TOO_MANY, f"more than {most_values} values")
        levels.append(below)
    return None


def _place_of(number: int, levels: list[list[Any]]) -> Place:
    """Return the place of a value by its `number` in the last level."""
    place: Place = ()
    for level in reversed(levels[:-1]):
        above = 0
        while number >= (size := len(level[above]) if isinstance(level[above], dict | list) else 0):
            number, above = number - size, above + 1
        part = level[above]
        place, number = (list(part)[number] if isinstance(part, dict) else number, *place), above
    return place


def _is_finite(number: float) -> bool:
    try:
        return isfinite(number)
    except OverflowError:  # an int
        return False


def _shown(place: Place, most_name_bytes: int) -> str:
    parts = (f"[{each}]" if isinstance(each, int) else f".{bounded(each, most_name_bytes)}" for each in place)
    return bounded("".join(parts).removeprefix("."), _MOST_PLACE_BYTES)
