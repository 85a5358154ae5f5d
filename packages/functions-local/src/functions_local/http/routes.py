"""Route templates of HTTP triggers: find a path's function and its route values.

The rules are those of ASP.NET Core, on which the Azure Functions host runs: case-insensitive literals,
`{name}`, `{name?}`, `{name:constraint}`, a catch-all `{*rest}` at the end, precedence segment by segment.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from itertools import combinations
from urllib.parse import unquote

from functions_local.app import Function, HttpTrigger
from functions_local.configuration import StartError

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


class _Rank(IntEnum):
    """Precedence of one segment; the lower value wins."""

    LITERAL = 1
    #: A parameter with a constraint, or with fixed text around it.
    CONSTRAINED = 2
    PARAMETER = 3
    CONSTRAINED_REST = 4
    REST = 5


#: Reserved first segments of a function's route, for any prefix.
_RESERVED = ("admin", "runtime")

#: `{name}` with its stars and constraints; a brace inside a constraint is doubled.
_PARAMETER = re.compile(r"\{(?P<rest>\*{0,2})(?P<name>\w+)(?P<tail>(?:[^{}]|\{\{|\}\})*+)\}")
_CONSTRAINT = re.compile(r":((?:\w+)(?:\((?:[^()]|\([^()]*\))*\))?)")


@dataclass(frozen=True, slots=True)
class RouteTemplate:
    """A compiled template; templates sort by precedence."""

    pattern: re.Pattern[str]
    constraints: Mapping[str, tuple[Constraint, ...]]
    precedence: tuple[int, ...]

    @classmethod
    def compile(cls, template: str) -> RouteTemplate:
        """Compile a template. Raises ValueError when it is malformed."""
        segments = [segment for segment in template.strip("/").split("/") if segment]
        parts = [_compile_segment(segment) for segment in segments]
        constraints = {name: tests for part in parts for name, tests in part.constraints.items() if tests}
        pattern = "".join(part.pattern for part in parts)
        return cls(
            pattern=re.compile(f"{pattern}/?", re.IGNORECASE | re.DOTALL),
            constraints=constraints,
            precedence=tuple(part.rank for part in parts),
        )

    def match(self, path: str) -> dict[str, str] | None:
        """Return the route values if `path` (decoded, with its leading `/`) matches, else None."""
        found = self.pattern.fullmatch(path)
        if found is None:
            return None
        values = {name: value for name, value in found.groupdict().items() if value}
        tests = ((values[name], tests) for name, tests in self.constraints.items() if name in values)
        return values if all(test(value) for value, tests in tests for test in tests) else None


@dataclass(frozen=True, slots=True)
class _Segment:
    pattern: str
    rank: _Rank
    constraints: Mapping[str, tuple[Constraint, ...]]


def _compile_segment(segment: str) -> _Segment:
    parameters = list(_PARAMETER.finditer(segment))
    literal = _PARAMETER.sub("", segment)
    if "{" in literal or "}" in literal:
        raise ValueError(f"{segment!r} is not a valid part of a route")
    if not parameters:
        return _Segment(f"/{re.escape(segment)}", _Rank.LITERAL, {})
    constraints = {parameter["name"]: _constraints(parameter["tail"]) for parameter in parameters}
    narrowed = bool(literal) or any(constraints.values())
    if parameters[0]["rest"]:
        rank = _Rank.CONSTRAINED_REST if narrowed else _Rank.REST
        return _Segment(f"(?:/(?P<{parameters[0]['name']}>.*?))?", rank, constraints)
    rank = _Rank.CONSTRAINED if narrowed else _Rank.PARAMETER
    pattern = f"/{_segment_pattern(segment)}"
    return _Segment(f"(?:{pattern})?" if parameters[-1]["tail"].endswith("?") else pattern, rank, constraints)


def _segment_pattern(segment: str) -> str:
    pattern, position = "", 0
    for parameter in _PARAMETER.finditer(segment):
        pattern += re.escape(segment[position : parameter.start()]) + f"(?P<{parameter['name']}>[^/]+)"
        position = parameter.end()
    return pattern + re.escape(segment[position:])


def _constraints(text: str) -> tuple[Constraint, ...]:
    unescaped = text.removesuffix("?").replace("{{", "{").replace("}}", "}")
    names = _CONSTRAINT.findall(unescaped)
    if "".join(f":{name}" for name in names) != unescaped:
        raise ValueError(f"{text!r} is not a valid route constraint")
    return tuple(read_constraint(name) for name in names)


@dataclass(frozen=True, slots=True)
class Route:
    """One HTTP function and its route. `path` is the template with the prefix, beginning with `/`."""

    function: Function
    trigger: HttpTrigger
    path: str
    template: RouteTemplate


@dataclass(frozen=True, slots=True)
class RouteMatch:
    """The function that answers a request, and the values from its path."""

    route: Route
    values: Mapping[str, str]


class RouteTable:
    """All HTTP functions in order of precedence."""

    def __init__(self, functions: Iterable[Function], prefix: str) -> None:
        routes = [
            _route(function, function.trigger, prefix)
            for function in functions
            if isinstance(function.trigger, HttpTrigger)
        ]
        self.routes = sorted(routes, key=lambda route: (route.template.precedence, route.path))
        for one, other in combinations(self.routes, 2):
            if one.path.lower() == other.path.lower() and one.trigger.methods & other.trigger.methods:
                raise StartError(
                    f"functions {one.function.name} and {other.function.name} have the same route"
                )

    def find(self, method: str, raw_path: str) -> RouteMatch | None:
        """Find the function for a request; None for an unknown path, and for a method it does not accept."""
        # An encoded slash stays encoded: it is part of a value, not a separator, as in ASP.NET Core.
        path = unquote(raw_path.replace("%2F", "%252F").replace("%2f", "%252f"))
        for route in self.routes:
            if method in route.trigger.methods and (values := route.template.match(path)) is not None:
                return RouteMatch(route, values)
        return None


def _route(function: Function, trigger: HttpTrigger, prefix: str) -> Route:
    if trigger.route.lower().startswith(_RESERVED):
        raise StartError(f"function {function.name} has the route {trigger.route!r}, which Azure reserves")
    path = "/" + "/".join(part for part in (prefix.strip("/"), trigger.route.strip("/")) if part)
    try:
        return Route(function, trigger, path, RouteTemplate.compile(path))
    except (ValueError, re.error) as error:
        raise StartError(f"function {function.name} has the route {trigger.route!r}: {error}") from error
