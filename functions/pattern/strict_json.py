"""JSON from outside, read strictly: UTF-8, finite numbers, names given once, bounded depth."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_05UP, Context
from itertools import islice
from math import isfinite
from typing import Any, NoReturn

from functions.pattern.json_marks import depth_of, marks_of
from functions.pattern.texts import bounded

#: How deep a message may be nested, and what is written as one field of it.
MESSAGE_DEPTH = 100
FIELD_DEPTH = MESSAGE_DEPTH - 1

NOT_JSON = "not JSON"
TOO_DEEP = "nested too deeply"
HALF_A_CHARACTER = "half a character"
_TOO_LARGE = "a number that is too large"

#: Places that are told at most: a body can have a fault at each of its bytes.
_MOST_FAULTS = 100
_MOST_NAME_BYTES = 64
_MOST_PLACE_BYTES = 256

#: Others than Python read a whole number as infinite from here on: it has 309 digits, and perhaps a sign. To
#: read one as a float first costs ten times as much.
_INFINITE = 2**1024 - 2**970
_MOST_DIGITS = 310

#: A number of more than 40 digits, which has as many characters with its power, takes four times as long to
#: convert. Its digits are cut so that it is rounded as if they were there; but one whose first 39 are those
#: of the middle between two floats may become either.
_MOST_CONVERTED = 46
_SHORTENED = Context(prec=40, rounding=ROUND_05UP, traps=[])

#: What tells how deep a text is nested: texts, which may have no end, and brackets.
_NESTING = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)

#: Half a character, which is always escaped, or one of two that make one.
_ESCAPED_HALF = re.compile(rb"\\u[dD][89a-fA-F]")

type Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FaultAt:
    """What is wrong in a message, and where. Of the kinds there are a few, whatever the message says."""

    place: Place
    kind: str
    text: str

    def told(self, most_name_bytes: int) -> str:
        """Say where it is, by names that are cut to so many bytes, and what."""
        return ": ".join(filter(None, (_shown(self.place, most_name_bytes), self.text)))

    def __str__(self) -> str:
        return self.told(_MOST_NAME_BYTES)


class NotJsonError(ValueError):
    """What was read is not JSON as it is taken here.

    `content` is what could be read; what stands at the places of the faults means nothing.
    """

    def __init__(self, faults: tuple[FaultAt, ...], content: object = None) -> None:
        super().__init__(str(faults[0]))
        self.faults = faults
        self.content = content


@dataclass(frozen=True, slots=True)
class _Flaw:
    """Stands where a value can't be taken."""

    text: str


class _Reader:
    """Reads with Python's parser, and leaves a flaw where a value can't be taken: the first hundred."""

    def __init__(self) -> None:
        self.flaws: list[_Flaw] = []

    def read(self, text: str) -> object:
        return json.loads(
            text,
            parse_constant=lambda _: self._flaw("not a JSON number"),
            parse_float=self._float,
            parse_int=self._int,
            object_pairs_hook=self._members,
        )

    def _flaw(self, text: str) -> _Flaw:
        if len(self.flaws) < _MOST_FAULTS:
            self.flaws.append(_Flaw(text))
        return self.flaws[-1]

    def _float(self, digits: str) -> float | _Flaw:
        # Once: of a number between two floats, it costs as much as all else together.
        number = float(digits if len(digits) <= _MOST_CONVERTED else _SHORTENED.create_decimal(digits))
        return number if isfinite(number) else self._flaw(_TOO_LARGE)

    def _int(self, digits: str) -> int | _Flaw:
        number = int(digits) if len(digits) <= _MOST_DIGITS else _INFINITE
        return number if abs(number) < _INFINITE else self._flaw(_TOO_LARGE)

    def _members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) < len(pairs) and len(self.flaws) < _MOST_FAULTS:
            times = Counter(name for name, _ in pairs)
            read |= {name: self._flaw("given twice") for name, count in times.items() if count > 1}
        return read


def parse_json(body: bytes, most_depth: int = MESSAGE_DEPTH) -> object:
    """Parse JSON. Raises `NotJsonError`, which names the places and the faults."""
    reader = _Reader()
    try:
        text = body.decode()
        content = reader.read(text)
    except RecursionError:
        content = _read_around(reader.read, text, most_depth)
    except ValueError as error:
        _refuse(error)
    if reader.flaws or _ESCAPED_HALF.search(body) or _is_deep(body, most_depth):
        faults = _first_faults(content, most_depth)
        if faults:
            raise NotJsonError(faults, content)
    return content


def halves_in(content: object) -> tuple[FaultAt, ...]:
    """Find the first texts that are none."""
    return _first_faults(content, MESSAGE_DEPTH)


def _is_deep(body: bytes, most_depth: int) -> bool:
    """Tell whether it is nested deeper; what opens fewer objects and lists is not even looked at."""
    opened = body.count(b"{") + body.count(b"[")
    return opened > most_depth and depth_of(marks_of(body, len(body))) > most_depth


def _read_around(read: Callable[[str], object], text: str, most_depth: int) -> object:
    """Read what is around that which is nested too deeply to be read at all."""
    try:
        return read(_without_depths(text, most_depth))
    except ValueError:
        raise NotJsonError((_too_deep((), most_depth),)) from None


def _without_depths(text: str, most_depth: int) -> str:
    """Empty the objects and lists that are one level too deep."""
    kept, depth, start = list[str](), 0, 0
    for each in _NESTING.finditer(text):
        if each[0] in "[{":
            depth += 1
            if depth == most_depth + 1:
                kept.append(text[start : each.end()])
        elif each[0] in "]}":
            if depth == most_depth + 1:
                start = each.start()
            depth -= 1
    return "".join(kept) + (text[start:] if depth <= most_depth else "")


def _refuse(error: ValueError) -> NoReturn:
    at = f" (at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
    raise NotJsonError((FaultAt((), NOT_JSON, f"{NOT_JSON}{at}"),)) from None


def _too_deep(place: Place, most_depth: int) -> FaultAt:
    return FaultAt(place, TOO_DEEP, f"nested deeper than {most_depth} levels")


def _first_faults(content: object, most_depth: int) -> tuple[FaultAt, ...]:
    """Find the first faults; another kind may hide behind many halves of characters."""
    faults = tuple(islice(_faults((), content, most_depth), _MOST_FAULTS))
    if len(faults) == _MOST_FAULTS and all(each.kind == HALF_A_CHARACTER for each in faults):
        return (*faults, FaultAt((), "too many faults", f"wrong in {_MOST_FAULTS} places or more"))
    return faults


def _faults(place: Place, value: object, most_depth: int) -> Iterator[FaultAt]:
    """Find what can't be taken; nothing is looked for in what is too deep."""
    match value:
        case _Flaw():
            yield FaultAt(place, value.text, value.text)
        case str() if not _is_whole(value):
            yield _broken(place)
        case dict() | list() if len(place) >= most_depth:
            yield _too_deep(place, most_depth)
        case dict():
            for name, each in value.items():
                if not _is_whole(name):
                    yield _broken(place)
                yield from _faults((*place, _whole(name)), each, most_depth)
        case list():
            for number, each in enumerate(value):
                yield from _faults((*place, number), each, most_depth)
        case _:
            return


def _broken(place: Place) -> FaultAt:
    return FaultAt(place, HALF_A_CHARACTER, HALF_A_CHARACTER)


def _is_whole(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: JSON can escape one half of a character."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _whole(text: str) -> str:
    """Give a name as it can be told: a place stands in answers, which are UTF-8."""
    return text.encode(errors="replace").decode()


def _shown(place: Place, most_name_bytes: int) -> str:
    parts = (f"[{each}]" if isinstance(each, int) else f".{bounded(each, most_name_bytes)}" for each in place)
    return bounded("".join(parts).removeprefix("."), _MOST_PLACE_BYTES)
