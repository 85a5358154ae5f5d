"""The Bicep functions that our templates use, as far as the tests need them."""

from __future__ import annotations

from functools import reduce
from operator import add, or_
from typing import Final
from urllib.parse import quote

from tests.infra.bicep.expressions import UnreadableError
from tests.infra.bicep.values import Function, Unresolved, Value, shown


def _of_known(function: Function) -> Function:
    """Make a function's result unresolved if one of its arguments is."""

    def called(*arguments: Value) -> Value:
        unresolved = [each for each in arguments if isinstance(each, Unresolved)]
        return unresolved[0] if unresolved else function(*arguments)

    return called


def _filtered(of: list[Value], wanted: Function) -> Value:
    """Return the items for which `wanted` is true. Raises `UnreadableError` when it is unknown."""
    answers = [wanted(each) for each in of]
    if not all(isinstance(answer, bool) for answer in answers):
        raise UnreadableError(f"a filter's condition is {answers}, neither true nor false")
    return [each for each, answer in zip(of, answers, strict=True) if answer]


#: Addresses of the public cloud.
_ENVIRONMENT: Final[dict[str, Value]] = {
    "authentication": {"loginEndpoint": "https://login.microsoftonline.com/"},
    "portal": "https://portal.azure.com",
    "suffixes": {"storage": "core.windows.net"},
}

BUILTINS: Final[dict[str, Function]] = {
    "contains": _of_known(lambda of, item: item in of),
    "concat": _of_known(lambda *lists: reduce(add, lists)),
    "empty": lambda value: not isinstance(value, Unresolved) and value in (None, "", [], {}),
    "endsWith": _of_known(str.endswith),
    "environment": lambda: _ENVIRONMENT,
    "filter": _of_known(_filtered),
    "flatten": _of_known(lambda lists: reduce(add, lists, [])),
    "items": _of_known(lambda of: [{"key": key, "value": value} for key, value in sorted(of.items())]),
    "join": _of_known(lambda of, between: between.join(of)),
    "last": _of_known(lambda of: of[-1]),
    "length": _of_known(len),
    "map": _of_known(lambda of, result: [result(each) for each in of]),
    "max": _of_known(max),
    "range": _of_known(lambda start, count: list(range(start, start + count))),
    "replace": _of_known(lambda text, old, new: text.replace(old, new)),
    "split": _of_known(lambda text, between: text.split(between)),
    "startsWith": _of_known(str.startswith),
    "string": _of_known(shown),
    "substring": _of_known(lambda text, start, count: text[start : start + count]),
    "toObject": _of_known(lambda of, key, value: {key(each): value(each) for each in of}),
    "toUpper": _of_known(str.upper),
    "union": _of_known(lambda *objects: reduce(or_, objects)),
    "uniqueString": lambda *_: "abcdefghijklm",
    "uriComponent": _of_known(lambda text: quote(text, safe="")),
}
