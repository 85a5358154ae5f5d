"""Writes `docs/settings.md` from the application's settings: `python -m local.settings_page`."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import HttpUrl
from pydantic.fields import FieldInfo

from functions.core.definition.step_definition import Retry
from functions.settings import Settings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"

_HEAD = """\
# Settings

For operators and platform engineers: find and change a setting. Settings are read from the environment and
checked at start; a missing or wrong setting stops the start with a line that names the fix. An empty setting
counts as not set. Times are in seconds. In Azure, set them in `infra/main.bicepparam`; on this machine in
the environment, `local.settings.json` or `local.settings.sample.json`, in this order.

`make settings-page` writes this page from `functions/settings.py` and `functions/connections.py`.

| setting | type | default | meaning |
|---|---|---|---|
"""

_FOOT = """\

Required: `StateStore` or `StateStore__tableServiceUri` (with `ROLES=agents`: `AgentStore` or
`AgentStore__tableServiceUri`), and `ServiceBusConnection` or `ServiceBusConnection__fullyQualifiedNamespace`.
The Functions host has its own settings, such as `AzureWebJobsStorage`.

## For each Agent

`{AGENT}` is the Agent's name in capitals, with underscores for dashes: the Agent `car-rental` has
`CAR_RENTAL_URL`. Agents that `AGENTS_ELSEWHERE` names need none of these settings.

| setting | type | default | meaning |
|---|---|---|---|
| `{AGENT}_URL` | URL | required | the address of the remote service: `https`, or `http` on this machine |
| `{AGENT}_KEY` | text, secret | none | the key that the remote service requires |
| `{AGENT}_HEADER` | text | `x-functions-key` | the header in which the key is sent; only with `{AGENT}_KEY` |
| `{AGENT}_SCOPE` | text | none | the scope of the bearer tokens that the remote service requires, such as \
`api://payments/.default`; not with `{AGENT}_KEY` |
| `AGENT_{AGENT}_AT_ONCE` | whole number, at least 1, at most 100000 | none | the calls of the service that \
one instance has under way at the same time |
"""

_TYPES: Mapping[object, str] = {
    bool: "`0` or `1`",
    dict: "pairs `name=value`",
    float: "number",
    frozenset: "list",
    HttpUrl: "URL",
    Retry: "pairs `name=value`",
    int: "whole number",
    str: "text",
    tuple: "list",
}
_LIMITS = {Ge: ("ge", "at least"), Gt: ("gt", "above"), Le: ("le", "at most")}


def page() -> str:
    """Return the page."""
    rows = (_row(field) for field in Settings.model_fields.values())
    return _HEAD + "".join(rows) + _FOOT


def _row(field: FieldInfo) -> str:
    secret = "" if field.repr else ", secret"
    what = f"{_type(field.annotation)}{''.join(_limits(field))}{secret}"
    meaning = (field.description or "").replace("*", r"\*")
    return f"| `{field.validation_alias}` | {what} | {_default(field)} | {meaning} |\n"


def _type(annotation: Any) -> str:
    origin = get_origin(annotation) or annotation
    if origin in (Union, types.UnionType):
        return _type(next(kind for kind in get_args(annotation) if kind is not type(None)))
    if origin is Annotated:
        return _type(get_args(annotation)[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    return _TYPES[origin]


def _limits(field: FieldInfo) -> Iterator[str]:
    for limit in field.metadata:
        if type(limit) in _LIMITS:
            name, words = _LIMITS[type(limit)]
            yield f", {words} {getattr(limit, name)}"


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    match default:
        case None:
            return "none"
        case bool():
            return f"`{int(default)}`"
        case Retry():
            return f"`{','.join(f'{name}={value:g}' for name, value in asdict(default).items())}`"
        case frozenset():
            return f"`{','.join(sorted(default))}`" if default else "empty"
        case tuple() | dict():
            return f"`{','.join(map(str, default))}`" if default else "empty"
        case _:
            return f"`{default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
