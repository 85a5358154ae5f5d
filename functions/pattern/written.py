"""How the fields of a definition may be written. Each function raises `ValueError`: the field and the fix."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import StrEnum

from pydantic import AliasChoices, AliasPath, BaseModel

#: What a definition's functions are called with.
PAYLOAD = ("the payload",)
USUAL = (*PAYLOAD, "the results")
WITH_ITEM = (*USUAL, "the item")

#: Kinds of functions that give a promise of what is wanted: as a condition, one that always holds.
_GIVE_LATER = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)

#: A limit beyond a year would be as good as none.
_MOST_SECONDS = 365 * 86_400


def member[Kind: StrEnum](
    field: str, kind: type[Kind], value: object, *, but: frozenset[Kind] = frozenset()
) -> Kind:
    """Read a member of an enum, which may be written as its text; those in `but` are for other fields."""
    possible = {str(each): each for each in kind if each not in but}
    if str(value) in possible:
        return possible[str(value)]
    choices = " or ".join(f"{kind.__name__}.{each.name}" for each in possible.values())
    raise ValueError(f"{field} must be {choices}, not {value!r}")


def names(field: str, value: object) -> frozenset[str]:
    """Read names from a set, a list or a tuple; a bare text would be a set of letters."""
    if isinstance(value, str):
        fix = f"must be a set of names: write {{{value!r}}} instead of {value!r}"
        raise ValueError(f"{field} {fix}")  # noqa: TRY004 - one kind of error for all of them
    if not isinstance(value, AbstractSet | list | tuple) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{field} must be a set of steps' names, such as {{'payment'}}, not {value!r}")
    return frozenset(value)


def tuple_of[Kind](field: str, kind: type[Kind], value: object) -> tuple[Kind, ...]:
    """Read a list, or a tuple, of what the definition has defined."""
    if not isinstance(value, list | tuple):
        found = type(value).__name__
    elif others := [type(each).__name__ for each in value if not isinstance(each, kind)]:
        found = f"one with a {others[0]} in it"
    else:
        return tuple(value)
    raise ValueError(f"{field} must be a list of {kind.__name__}(…), not {found}")


def flag(field: str, value: object) -> bool:
    """Check a flag; of a text, also 'no' would be true."""
    if not isinstance(value, bool):
        raise ValueError(f"{field} must be True or False, not {value!r}")  # noqa: TRY004 - as above
    return value


def function(field: str, value: object, *, takes: tuple[str, ...] = USUAL, may_yield: bool = False) -> None:
    """Check a function, and that it can be called with what it is given; it `may_yield` what it gives."""
    kind = f"a function of {' and '.join(takes)}"
    if not callable(value):
        raise ValueError(f"{field} must be {kind}, not {value!r}")  # noqa: TRY004 - as above
    if _is_of(value, *_GIVE_LATER) or (not may_yield and _is_of(value, inspect.isgeneratorfunction)):
        raise ValueError(f"{field} must be {kind} that gives it at once: leave out its async, or its yield")
    try:
        signature = inspect.signature(value)
    except ValueError:  # of some that are built in, none is known
        return
    try:
        signature.bind(*takes)
    except TypeError as fault:
        raise ValueError(f"{field} must be {kind} ({fault})") from None


def _is_of(function: Callable[..., object], *kinds: Callable[[object], bool]) -> bool:
    """Tell whether a function, or an object that can be called, is of one of the kinds."""
    return any(is_kind(each) for is_kind in kinds for each in (function, type(function).__call__))


def count(field: str, value: object, *, most: int) -> int:
    """Check a number of things."""
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{field} must be a whole number from 1 to {most}, not {value!r}")
    return value


def model(field: str, value: object) -> None:
    """Check the form of a payload."""
    if not isinstance(value, type) or not issubclass(value, BaseModel):
        raise ValueError(f"{field} must be a pydantic model class, not {value!r}")  # noqa: TRY004 - as above


def sent_names(payload: type[BaseModel]) -> frozenset[str]:
    """Name the fields that an order may be sent with: by their names, and by each of their aliases."""
    aliases = [each.validation_alias for each in payload.model_fields.values()]
    aliases += [one for each in aliases if isinstance(each, AliasChoices) for one in each.choices]
    first = [each.path[0] if isinstance(each, AliasPath) else each for each in aliases]
    return frozenset({*payload.model_fields, *(each for each in first if isinstance(each, str))})


def seconds(field: str, value: object) -> float:
    """Check a time: a number of seconds above 0, and not endless."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST_SECONDS:
        raise ValueError(f"{field} must be more than 0 and at most {_MOST_SECONDS} seconds, not {value!r}")
    return value
