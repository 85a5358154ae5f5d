"""Those of Bicep's functions that our templates use, as far as a test needs them."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from tests.infra.bicep.values import Unresolved, Value, is_empty, shown


def call(name: str, arguments: list[Value]) -> Value:
    """Evaluate a call; one that Azure must answer stays unresolved."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return Unresolved(f"{name}({', '.join(map(shown, arguments))})")
    return function(arguments)


def _union(arguments: list[Value]) -> Value:
    together: dict[str, Value] = {}
    for each in arguments:
        if isinstance(each, Unresolved):
            return each
        if isinstance(each, dict):
            together |= each
    return together


def _concat(arguments: list[Value]) -> Value:
    together: list[Value] = []
    for each in arguments:
        if isinstance(each, Unresolved):
            return each
        if isinstance(each, list):
            together += each
    return together


def _items(arguments: list[Value]) -> Value:
    (given,) = arguments
    if not isinstance(given, dict):
        return given
    return [{"key": key, "value": value} for key, value in sorted(given.items())]


def _string(arguments: list[Value]) -> Value:
    (given,) = arguments
    return given if isinstance(given, Unresolved) else shown(given)


def _max(arguments: list[Value]) -> Value:
    return max(each for each in arguments if isinstance(each, int))


def _environment(_arguments: list[Value]) -> Value:
    """Give the public cloud's addresses."""
    return {
        "authentication": {"loginEndpoint": "https://login.microsoftonline.com/"},
        "portal": "https://portal.azure.com",
        "suffixes": {"storage": "core.windows.net"},
    }


def _uri_component(arguments: list[Value]) -> Value:
    (given,) = arguments
    return quote(given, safe="") if isinstance(given, str) else given


def _unique_string(_arguments: list[Value]) -> Value:
    return "abcdefghijklm"


_FUNCTIONS: dict[str, Callable[[list[Value]], Value]] = {
    "concat": _concat,
    "environment": _environment,
    "empty": lambda arguments: is_empty(arguments[0]),
    "items": _items,
    "max": _max,
    "string": _string,
    "union": _union,
    "uniqueString": _unique_string,
    "uriComponent": _uri_component,
}
