"""JSON from outside, read strictly: UTF-8, finite numbers, names given once, bounded depth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn

from functions.pattern.texts import bounded

#: How deep a message may be nested, and what is written as one field of it.
MESSAGE_DEPTH = 100
FIELD_DEPTH = MESSAGE_DEPTH - 1

NOT_JSON = "not JSON"
TOO_DEEP = "nested too deeply"
HALF_A_CHARACTER = "half a character"

_MOST_NAME_BYTES = 64
_MOST_PLACE_BYTES = 256

type Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FaultAt:
    """What is wrong in a message, and where. Of the kinds there are a few, whatever the message says."""

    place: Place
    kind: str
    text: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (_shown(self.place), self.text)))


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


def parse_json(body: bytes, most_depth: int = MESSAGE_DEPTH) -> object:
    """Parse JSON. Raises `NotJsonError`, which names the places and the faults."""
    flaws: list[_Flaw] = []

    def flaw(text: str) -> _Flaw:
        flaws.append(_Flaw(text))
        return flaws[-1]

    def number(digits: str) -> float | _Flaw:
        read = float(digits)
        return read if isfinite(read) else flaw("a number that is too large")

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) < len(pairs):
            names = [name for name, _ in pairs]
            read |= {name: flaw("given twice") for name in read if names.count(name) > 1}
        return read

    try:
        content = json.loads(
            body.decode(),
            parse_constant=lambda _: flaw("not a JSON number"),
            parse_float=number,
            object_pairs_hook=members,
        )
    except RecursionError:
        raise NotJsonError((_too_deep((), most_depth),)) from None
    except ValueError as error:
        _refuse(error)
    # Half a character is always escaped, and what opens fewer objects and lists can't be deeper.
    if flaws or b"\\u" in body or body.count(b"{") + body.count(b"[") > most_depth:
        faults = tuple(_faults((), content, most_depth))
        if faults:
            raise NotJsonError(faults, content)
    return content


def _refuse(error: ValueError) -> NoReturn:
    at = f" (at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
    raise NotJsonError((FaultAt((), NOT_JSON, f"{NOT_JSON}{at}"),)) from None


def _too_deep(place: Place, most_depth: int) -> FaultAt:
    return FaultAt(place, TOO_DEEP, f"nested deeper than {most_depth} levels")


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
                yield from _faults((*place, name), each, most_depth)
        case list():
            for number, each in enumerate(value):
                yield from _faults((*place, number), each, most_depth)
        case _:
            return


def is_deeper(value: object, most_depth: int) -> bool:
    """Tell whether what is to be written is nested deeper than so many levels, each an object or a list."""
    match value:
        case dict():
            parts = list(value.values())
        case list() | tuple():
            parts = list(value)
        case _:
            return False
    return most_depth == 0 or any(is_deeper(each, most_depth - 1) for each in parts)


def _broken(place: Place) -> FaultAt:
    return FaultAt(place, HALF_A_CHARACTER, HALF_A_CHARACTER)


def _is_whole(text: str) -> bool:
    """Tell whether a text can be written as UTF-8: JSON can escape one half of a character."""
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)


def _shown(place: Place) -> str:
    parts = (
        f"[{each}]" if isinstance(each, int) else f".{bounded(each, _MOST_NAME_BYTES)}" for each in place
    )
    return bounded("".join(parts).removeprefix("."), _MOST_PLACE_BYTES)
