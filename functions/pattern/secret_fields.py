"""Which fields of a payload are secret, as its model marks them, and JSON without what they hold.

Secret is what the model's JSON schema calls `writeOnly`, as it does of pydantic's `SecretStr`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from pydantic import BaseModel

from functions.pattern.texts import CUT

#: What stands in the place of a secret.
HIDDEN = "(hidden)"

#: Characters of a secret that is looked for inside other texts; a shorter one is found as a whole text only.
_LEAST_INSIDE = 4

_MARK = "writeOnly"
_UNIONS = ("anyOf", "oneOf", "allOf")
_OF_PARTS = ("items", "additionalProperties", "contentSchema")

#: Stands for what can't be looked up: nothing of it is shown.
_UNKNOWN: Mapping[str, Any] = {_MARK: True}
_ANYTHING: Mapping[str, Any] = {}

type _Schemas = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Secrets:
    """What secret fields hold, as texts. It is in no representation of this."""

    values: frozenset[str] = field(default=frozenset(), repr=False)

    def without(self, content: Any) -> Any:
        """Give JSON in which each text or number that is a secret is hidden, also inside longer texts."""
        if not self.values:
            return content
        return self._without(content, self._pattern())

    def _without(self, content: Any, inside: re.Pattern[str] | None) -> Any:
        match content:
            case dict():
                return {
                    self._without(name, inside): self._without(each, inside) for name, each in content.items()
                }
            case list():
                return [self._without(each, inside) for each in content]
            case str() if content.strip() in self.values:
                return HIDDEN
            case str():
                whole = self._without_a_part(content)
                return whole if inside is None else inside.sub(HIDDEN, whole)
            case int() | float() if not isinstance(content, bool) and str(content) in self.values:
                return HIDDEN
            case _:
                return content

    def _without_a_part(self, text: str) -> str:
        """Hide also the beginning of a secret within which a text was cut."""
        kept = text.removesuffix(CUT)
        if kept == text:
            return text
        begun = (
            each[:length]
            for each in self.values
            for length in range(_LEAST_INSIDE, len(each))
            if kept.endswith(each[:length])
        )
        return kept.removesuffix(max(begun, key=len, default="")) + CUT

    def _pattern(self) -> re.Pattern[str] | None:
        long = sorted((each for each in self.values if len(each) >= _LEAST_INSIDE), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, long))) if long else None


NO_SECRETS = Secrets()


@dataclass(frozen=True, slots=True)
class Shown:
    """JSON without its secrets, and the secrets."""

    content: Any
    secrets: Secrets


class SecretFields:
    """The secret fields of one model, by its JSON schema; a field may be sent by its alias or its name.

    Of a model with a secret field, nothing is shown that the schema does not know: it could be that field,
    under another of its names. Raises what pydantic raises of a model that has no schema.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self._documents = tuple(model.model_json_schema(by_alias=by_alias) for by_alias in (True, False))

    @cached_property
    def any(self) -> bool:
        """Tell whether there is one."""
        return any(_marks(document) for document in self._documents)

    def hide(self, content: Any) -> Shown:
        """Give JSON that was sent as the model's, without its secrets."""
        if not self.any:
            return Shown(content, NO_SECRETS)
        found: set[str] = set()
        shown = self._shown(content, tuple(self._expanded(self._documents)), found)
        return Shown(shown, Secrets(frozenset(found)))

    def _shown(self, content: Any, schemas: _Schemas, found: set[str]) -> Any:
        """Copy what is not secret by any of the schemas that it may be meant by."""
        if not schemas or any(_is_marked(each) for each in schemas):
            return _hidden(content, found)
        match content:
            case dict():
                return {
                    name: self._shown(each, tuple(self._expanded(_named(name, schemas))), found)
                    for name, each in content.items()
                }
            case list():
                return [
                    self._shown(each, tuple(self._expanded(_listed(number, schemas))), found)
                    for number, each in enumerate(content)
                ]
            case str() | int() | float() if any(self._holds_secrets(each) for each in schemas):
                return _hidden(content, found)  # such as JSON in a text
            case _:
                return content

    def _expanded(self, schemas: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Follow references, and take unions apart: each of a union may be meant."""
        waiting, known = list(schemas), set[int]()
        while waiting:
            schema = waiting.pop()
            if id(schema) in known:
                continue
            known.add(id(schema))
            yield schema
            waiting += (each for union in _UNIONS for each in schema.get(union, ()))
            if "$ref" in schema:
                waiting += self._referred(schema["$ref"])

    def _referred(self, reference: str) -> Iterable[Mapping[str, Any]]:
        """Find a reference in both documents, whose definitions have the same names."""
        name = reference.removeprefix("#/$defs/")
        return [document.get("$defs", {}).get(name, _UNKNOWN) for document in self._documents]

    def _holds_secrets(self, schema: Mapping[str, Any]) -> bool:
        """Tell whether something below a schema is secret, wherever that stands."""
        waiting, known = [schema], set[int]()
        while waiting:
            for each in self._expanded([waiting.pop()]):
                if id(each) in known:
                    continue
                known.add(id(each))
                if _is_marked(each):
                    return True
                waiting += _below(each)
        return False


@lru_cache
def secret_fields(model: type[BaseModel]) -> SecretFields:
    """Give the secret fields of a model, which are found once. Raises as `SecretFields`."""
    return SecretFields(model)


def _marks(value: Any) -> bool:
    match value:
        case dict():
            return _is_marked(value) or any(map(_marks, value.values()))
        case list():
            return any(map(_marks, value))
        case _:
            return False


def _is_marked(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema's value is secret, or the names of its members are."""
    names = schema.get("propertyNames")
    return schema.get(_MARK) is True or (isinstance(names, dict) and _is_marked(names))


def _named(name: str, schemas: _Schemas) -> Iterator[Mapping[str, Any]]:
    """Give the schemas of an object's member; none is known for what a model does not name."""
    for schema in schemas:
        others = schema.get("additionalProperties")
        if name in schema.get("properties", {}):
            yield schema["properties"][name]
        elif isinstance(others, dict):
            yield others
        elif "patternProperties" in schema:
            yield from schema["patternProperties"].values()
        elif _is_open(schema):
            yield _ANYTHING


def _listed(number: int, schemas: _Schemas) -> Iterator[Mapping[str, Any]]:
    """Give the schemas of a list's item."""
    for schema in schemas:
        first, others = schema.get("prefixItems", ()), schema.get("items")
        if number < len(first):
            yield first[number]
        elif isinstance(others, dict):
            yield others
        elif _is_open(schema):
            yield _ANYTHING


def _is_open(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema takes anything, or a dict of anything."""
    if "type" in schema:
        return schema.get("additionalProperties") is True and "properties" not in schema
    return not any(each in schema for each in ("$ref", "const", "enum", "properties", *_UNIONS))


def _below(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for members in ("properties", "patternProperties"):
        yield from schema.get(members, {}).values()
    yield from schema.get("prefixItems", ())
    yield from (schema[each] for each in _OF_PARTS if isinstance(schema.get(each), dict))


def _hidden(content: Any, found: set[str]) -> Any:
    """Hide what is there, and remember it; that nothing is there is no secret."""
    if content is None:
        return None
    _remember(content, found)
    return HIDDEN


def _remember(content: Any, found: set[str]) -> None:
    match content:
        case dict():
            for each in content.values():
                _remember(each, found)
        case list():
            for each in content:
                _remember(each, found)
        case str() if content.strip():
            found.add(content.strip())
        case int() | float() if not isinstance(content, bool):
            found.add(str(content))
        case _:
            return
