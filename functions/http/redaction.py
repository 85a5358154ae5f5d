"""Redaction: JSON without the fields that its model declares as secret.

A field is secret if its type is pydantic's `SecretStr`, `SecretBytes` or `Secret`, or if its JSON schema says
`writeOnly`. In a model with a secret field, a member that the schema does not name is secret, too: it may be
that field under an alias.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

from pydantic import BaseModel, Secret, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import from_json

from functions.http.problems import faults_in

#: Replaces a secret value.
REDACTED = "(hidden)"

_SECRET = "writeOnly"  # noqa: S105 - a name in JSON schemas
_UNIONS = ("anyOf", "oneOf", "allOf")
#: The serialization by which a `Secret` is recognised: its JSON schema is that of its content.
_OF_SECRETS = TypeAdapter(Secret[str]).core_schema["serialization"]
_ANNOTATIONS = ("pydantic_js_annotation_functions", "pydantic_js_updates", "pydantic_js_extra")

type _Schema = Mapping[str, Any]


class NotShownError(Exception):
    """A value cannot be shown. The text says why."""


def redacted(model: type[BaseModel], text: str) -> Any:
    """Return the value of a JSON text that was sent as `model`, without its secret fields.

    Raises `NotShownError` if the model has no JSON schema.
    """
    root, value = _root(model), from_json(text)
    return root.redact(value) if root.has_secrets else value


def has_secrets(model: type[BaseModel]) -> bool:
    """Return whether a model has a secret field. Raises `NotShownError` if it has no JSON schema."""
    return _root(model).has_secrets


def any_secrets(models: Iterable[type[BaseModel] | None]) -> bool:
    """Return whether a model has a secret field. Raises `NotShownError` if one has no JSON schema."""
    return any(model is not None and has_secrets(model) for model in models)


def printable_text(text: str) -> tuple[str, bool]:
    """Return the first 64 Ki characters, unprintable ones replaced, and whether there are more."""
    most = 64 * 1024
    return "".join(each if each.isprintable() or each in "\n\t" else "�" for each in text[:most]), len(
        text
    ) > most


def public_faults(model: type[BaseModel], source: str, error: ValidationError) -> list[dict[str, Any]]:
    """Return the faults of a value of `model` in `source`; none names a place below a secret field."""
    return [_public(model, fault) for fault in faults_in(source, error)]


def _public(model: type[BaseModel], fault: dict[str, Any]) -> dict[str, Any]:
    try:
        place: _Place | None = _root(model) if has_secrets(model) else None
    except NotShownError:
        place = _Place((), ())
    for number, part in enumerate(fault["loc"][1:], 1):
        if place is not None and place.is_secret:
            text = "A value below this place is not valid"
            return {"type": "secret", "loc": fault["loc"][:number], "msg": text}
        place = None if place is None else place.below(part)
    return fault


class _SchemaWithNames(GenerateJsonSchema):
    """Writes the schema of the names of a dict's members in every case."""

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        """Return the schema of a dict."""
        names = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
        return {**super().dict_schema(schema), "propertyNames": names}


class _SchemaOfTypes(_SchemaWithNames):
    """Writes the schema of the types alone: an annotation may replace a schema that says `writeOnly`."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Return the schema of a type without its annotations."""
        if schema.get("serialization") == _OF_SECRETS:
            return {_SECRET: True}
        metadata = {
            name: value for name, value in schema.get("metadata", {}).items() if name not in _ANNOTATIONS
        }
        return super().generate_inner({**schema, "metadata": metadata})

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:  # noqa: ARG002
        """Return the schema of any value for a type that has a schema by an annotation only."""
        return {}


class _Place:
    """A place in the JSON of a model, and each schema that may describe it.

    `documents` are the JSON schemas of the model: with aliases and with names, and each of them with and
    without annotations. A place that no schema describes is secret.
    """

    def __init__(self, documents: tuple[_Schema, ...], schemas: Iterable[_Schema]) -> None:
        self._documents = documents
        self._schemas = tuple(self._expanded(schemas))
        self._names = {name for schema in self._schemas for name in schema.get("properties", ())}
        self._first_items = max((len(each.get("prefixItems", ())) for each in self._schemas), default=0)
        self._below: dict[str | int | None, _Place] = {}

    @cached_property
    def is_secret(self) -> bool:
        """Return whether the value is secret, or the names of its members are."""
        names = [each.get("propertyNames", {}) for each in self._schemas]
        is_marked = any(each.get(_SECRET) is True for each in self._schemas)
        return not self._schemas or is_marked or self._has_mark(names)

    @cached_property
    def has_secrets(self) -> bool:
        """Return whether the value, or a part of it, is secret."""
        return self._has_mark(self._schemas)

    def below(self, part: str | int) -> _Place:
        """Return the place of a member or an item. All that no schema names share one place."""
        key: str | int | None = min(part, self._first_items) if isinstance(part, int) else part
        if isinstance(part, str) and part not in self._names:
            key = None
        if key not in self._below:
            self._below[key] = _Place(self._documents, _schemas_below(self._schemas, part))
        return self._below[key]

    def redact(self, value: Any) -> Any:
        """Return a value at this place without secret fields."""
        if value is None:
            return None
        if self.is_secret:
            return REDACTED
        match value:
            case dict():
                return {name: self.below(name).redact(member) for name, member in value.items()}
            case list():
                return [self.below(number).redact(item) for number, item in enumerate(value)]
            case _:
                return REDACTED if self.has_secrets else value  # such as JSON in a text

    def _expanded(self, schemas: Iterable[_Schema]) -> Iterator[_Schema]:
        """Yield schemas together with those that they refer to, and with the members of unions."""
        waiting, seen = list(schemas), set[int]()
        while waiting:
            schema = waiting.pop()
            if id(schema) not in seen:
                seen.add(id(schema))
                yield schema
                waiting += (member for union in _UNIONS for member in schema.get(union, ()))
                waiting += self._referred(schema)

    def _referred(self, schema: _Schema) -> list[_Schema]:
        """Return the definitions of a reference in every document. An unknown one is secret."""
        if not isinstance(schema.get("$ref"), str):
            return []
        name = schema["$ref"].removeprefix("#/$defs/")
        found = (document.get("$defs", {}).get(name) for document in self._documents)
        return [each for each in found if each is not None] or [{_SECRET: True}]

    def _has_mark(self, schemas: Iterable[_Schema]) -> bool:
        """Return whether any part of schemas is marked as secret."""
        waiting, seen = list[Any](schemas), set[int]()
        while waiting:
            part = waiting.pop()
            if not isinstance(part, dict | list) or id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, list):
                waiting += part
            elif part.get(_SECRET) is True:
                return True
            else:
                waiting += [*part.values(), *self._referred(part)]
        return False


@lru_cache
def _root(model: type[BaseModel]) -> _Place:
    """Return the place of a whole value of a model. Raises `NotShownError`."""
    try:
        documents = tuple(
            model.model_json_schema(by_alias=by_alias, schema_generator=generator)
            for by_alias in (True, False)
            for generator in (_SchemaWithNames, _SchemaOfTypes)
        )
    except Exception as fault:  # noqa: BLE001 - pydantic, or a type of the model, may raise anything
        text = f"its model has no JSON schema, which names the secret fields ({type(fault).__name__})"
        raise NotShownError(text) from None
    return _Place(documents, documents)


def _schemas_below(schemas: Iterable[_Schema], part: str | int) -> Iterator[_Schema]:
    """Yield the schemas of a member or an item. A name that a model does not have has none."""
    for schema in schemas:
        if isinstance(part, int):
            named, others = schema.get("prefixItems", ())[part : part + 1], schema.get("items")
        else:
            properties = schema.get("properties", {})
            named = [properties[part]] if part in properties else schema.get("patternProperties", {}).values()
            others = schema.get("additionalProperties")
        if named:
            yield from named
        elif isinstance(others, dict):
            yield others
        elif _is_open(schema):
            yield {}


def _is_open(schema: _Schema) -> bool:
    """Return whether a schema describes any value, or a dict of any values."""
    if "type" in schema:
        return schema.get("additionalProperties") is True and "properties" not in schema
    return not any(name in schema for name in ("$ref", "const", "enum", "properties", *_UNIONS))
