"""Which fields of a payload are secret, as its model marks them, and JSON without what they hold.

Secret is what the model's JSON schema calls `writeOnly`, as it does of pydantic's `SecretStr`, or would call
so without an annotation that says something else, and pydantic's `Secret` of any type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

from pydantic import BaseModel, Secret, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

#: Stands in the place of a secret.
HIDDEN = "(hidden)"

_MARK = "writeOnly"
_UNIONS = ("anyOf", "oneOf", "allOf")
_OF_PARTS = ("items", "additionalProperties", "contentSchema")

#: Stands for what can't be looked up: nothing of it is shown.
_UNKNOWN: Mapping[str, Any] = {_MARK: True}
_ANYTHING: Mapping[str, Any] = {}

#: How pydantic writes a `Secret`, whose JSON schema is that of its content.
_OF_SECRETS = TypeAdapter(Secret[str]).core_schema["serialization"]
_SAID = ("pydantic_js_annotation_functions", "pydantic_js_updates", "pydantic_js_extra")

type _Schemas = tuple[Mapping[str, Any], ...]


class _Meant:
    """The schemas that a part of JSON may be meant by, and what is known of its members and items by now."""

    def __init__(self, schemas: _Schemas) -> None:
        self.schemas = schemas
        self.is_secret = not schemas or any(map(_is_marked, schemas))
        self.is_above_secrets: bool | None = None
        self.names = {name for each in schemas for name in each.get("properties", ())}
        self.first = max((len(each.get("prefixItems", ())) for each in schemas), default=0)
        self.members: dict[str | None, _Meant] = {}
        self.items: dict[int, _Meant] = {}


class _WhateverIsSaid(GenerateJsonSchema):
    """Makes a schema without what annotations say in its place: they can leave a secret's mark out."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Make the schema of what is annotated."""
        if schema.get("serialization") == _OF_SECRETS:
            return {_MARK: True}
        metadata = {name: each for name, each in schema.get("metadata", {}).items() if name not in _SAID}
        return super().generate_inner({**schema, "metadata": metadata})

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:  # noqa: ARG002
        """Take anything for what has a schema only by its annotation."""
        return {}


class SecretFields:
    """The secret fields of one model, by its JSON schema; a field may be sent by its alias or its name.

    Of a model with a secret field, nothing is shown that the schema does not know: it could be that field,
    under another of its names. Raises what pydantic raises of a model that has no schema.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self._documents = tuple(
            model.model_json_schema(by_alias=by_alias, schema_generator=generator)
            for by_alias in (True, False)
            for generator in (GenerateJsonSchema, _WhateverIsSaid)
        )
        self._meant: dict[frozenset[int], _Meant] = {}

    @cached_property
    def any(self) -> bool:
        """Tell whether there is one."""
        return any(_marks(document) for document in self._documents)

    def hide(self, content: Any) -> Any:
        """Return JSON that was sent as the model's, without its secret fields."""
        return self._shown(content, self._meant_by(self._documents)) if self.any else content

    def _shown(self, content: Any, meant: _Meant) -> Any:
        """Copy what is not secret by any of the schemas that it may be meant by."""
        if content is None:  # that nothing is there is no secret
            return None
        if meant.is_secret:
            return HIDDEN
        match content:
            case dict():
                return {name: self._shown(each, self._member(meant, name)) for name, each in content.items()}
            case list():
                return [self._shown(each, self._item(meant, number)) for number, each in enumerate(content)]
            case str() | int() | float() if self._is_above_secrets(meant):
                return HIDDEN  # such as JSON in a text
            case _:
                return content

    def _meant_by(self, schemas: Iterable[Mapping[str, Any]]) -> _Meant:
        """Give what these schemas mean, which is looked at once."""
        expanded = tuple(self._expanded(schemas))
        return self._meant.setdefault(frozenset(map(id, expanded)), _Meant(expanded))

    def _member(self, meant: _Meant, name: str) -> _Meant:
        """Give what an object's member is meant by: all that no schema names are meant alike."""
        known = name if name in meant.names else None
        if known not in meant.members:
            meant.members[known] = self._meant_by(_named(name, meant.schemas))
        return meant.members[known]

    def _item(self, meant: _Meant, number: int) -> _Meant:
        """Give what a list's item is meant by: all behind the first ones are meant alike."""
        known = min(number, meant.first)
        if known not in meant.items:
            meant.items[known] = self._meant_by(_listed(known, meant.schemas))
        return meant.items[known]

    def _is_above_secrets(self, meant: _Meant) -> bool:
        if meant.is_above_secrets is None:
            meant.is_above_secrets = any(map(self._holds_secrets, meant.schemas))
        return meant.is_above_secrets

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
        """Find a reference in the documents, whose definitions have the same names."""
        name = reference.removeprefix("#/$defs/")
        found = (document.get("$defs", {}).get(name) for document in self._documents)
        return [each for each in found if each is not None] or [_UNKNOWN]

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
