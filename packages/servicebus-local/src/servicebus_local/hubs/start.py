"""A reader's start position: the selector in the filter of its source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from servicebus_local.errors import ArgumentError

_SELECTOR = re.compile(r"amqp\.annotation\.(x-opt-[a-z-]+)\s*(>=?)\s*'?([^'\s]+)'?")
_LATEST = "@latest"
_BEFORE_ALL = -1


class Place(StrEnum):
    """The annotations that a start can name."""

    #: Bytes before the event in its partition; `@latest` is the end.
    OFFSET = "x-opt-offset"
    SEQUENCE_NUMBER = "x-opt-sequence-number"
    #: When the event was appended, in milliseconds since 1970 UTC.
    ENQUEUED_TIME = "x-opt-enqueued-time"


@dataclass(frozen=True, slots=True)
class Start:
    """The first event is the one after a value, or, inclusive, the one with it. None: the end."""

    place: Place = Place.OFFSET
    value: int | None = _BEFORE_ALL
    inclusive: bool = False

    @classmethod
    def read(cls, selector: str | None) -> Start:
        """Read a selector; without one it is the start of the partition. Raises ArgumentError."""
        if selector is None:
            return cls()
        match = _SELECTOR.fullmatch(selector.strip())
        try:
            place, value = Place(match[1] if match else ""), match[3] if match else ""
            number = None if value == _LATEST else int(value)
        except ValueError as error:
            raise ArgumentError(f"The filter '{selector}' is not one of a position.") from error
        return cls(place, number, match is not None and match[2] == ">=")
