"""Route constraints such as `{id:int}`: which path values they accept, with ASP.NET Core's names."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable
from datetime import datetime

type Constraint = Callable[[str], bool]

_CALL = re.compile(r"(?P<name>\w+)(?:\((?P<arguments>.*)\))?", re.DOTALL)

_PLAIN: dict[str, Constraint] = {
    "int": lambda text: re.fullmatch(r"[+-]?\d+", text) is not None and -(2**31) <= int(text) < 2**31,
    "long": lambda text: re.fullmatch(r"[+-]?\d+", text) is not None and -(2**63) <= int(text) < 2**63,
    "bool": lambda text: text.lower() in {"true", "false"},
    "alpha": lambda text: re.fullmatch(r"[A-Za-z]*", text) is not None,
    "guid": lambda text: _accepts(uuid.UUID, text),
    "datetime": lambda text: _accepts(datetime.fromisoformat, text),
    "decimal": lambda text: _accepts(float, text),
    "double": lambda text: _accepts(float, text),
    "float": lambda text: _accepts(float, text),
    "required": bool,
}


def read_constraint(text: str) -> Constraint:
    """Compile a constraint's text, such as `range(1,5)`, into a test of a path value.

    Raises ValueError for a name or arguments that ASP.NET Core does not define.
    """
    match = _CALL.fullmatch(text)
    name, arguments = (match["name"], match["arguments"]) if match else (text, None)
    if arguments is None and name in _PLAIN:
        return _PLAIN[name]
    if arguments is not None and name == "regex":
        pattern = re.compile(arguments, re.IGNORECASE)
        return lambda value: pattern.search(value) is not None
    if arguments is not None:
        return _numeric(name, [int(part) for part in arguments.split(",")])
    raise ValueError(f"unknown route constraint {text!r}")


def _numeric(name: str, numbers: list[int]) -> Constraint:
    least, most = numbers[0], numbers[-1]
    accepts = _NUMERIC.get((name, len(numbers)))
    if accepts is None:
        raise ValueError(f"unknown route constraint {name!r} with {len(numbers)} arguments")
    return lambda text: accepts(text, least, most)


def _between(text: str, least: float, most: float) -> bool:
    return _PLAIN["long"](text) and least <= int(text) <= most


#: By name and number of arguments: a test of the text against its first and last argument.
_NUMERIC: dict[tuple[str, int], Callable[[str, int, int], bool]] = {
    ("length", 1): lambda text, exact, _: len(text) == exact,
    ("length", 2): lambda text, least, most: least <= len(text) <= most,
    ("minlength", 1): lambda text, least, _: len(text) >= least,
    ("maxlength", 1): lambda text, most, _: len(text) <= most,
    ("min", 1): lambda text, least, _: _between(text, least, math.inf),
    ("max", 1): lambda text, most, _: _between(text, -math.inf, most),
    ("range", 2): _between,
}


def _accepts(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True
