"""Compares resources with Azure's published types (the format of Azure/bicep-types-az), as JSON schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jsonschema_rs import validator_for

from tests.infra.bicep.values import Unresolved, Value

type Schema = dict[str, Any]

_REQUIRED, _READ_ONLY = 1, 2

#: The properties of a resource's body that Bicep itself reads.
_OF_BICEP = {"parent", "scope", "dependsOn"}

#: In a checked value, null replaces a value that only Azure can compute, and this a string with such a value.
_WRITTEN = {"written": True}

_OF_STRINGS = {"StringType", "StringLiteralType", "UnionType", "AnyType"}
_SCALARS = {"BooleanType": "boolean", "IntegerType": "integer", "StringType": "string"}
_BOUNDS = {
    "ArrayType": {"minLength": "minItems", "maxLength": "maxItems"},
    "IntegerType": {"minValue": "minimum", "maxValue": "maximum"},
    "StringType": {"minLength": "minLength", "maxLength": "maxLength", "pattern": "pattern"},
}


@dataclass(frozen=True, eq=False)
class Type:
    """The type of a resource, in a file of types, which refer to each other by their index."""

    file: Sequence[Mapping[str, Any]]
    entry: Mapping[str, Any]

    @cached_property
    def schema(self) -> Schema:
        """Return the schema of the resource's body."""
        schemas = {str(index): self._schema(entry) for index, entry in enumerate(self.file)}
        return {**_referred(self.entry["body"]), "$defs": schemas}

    def _schema(self, entry: Mapping[str, Any]) -> Schema:
        kind = entry["$type"]
        checked: Schema = {"not": {"enum": [None, _WRITTEN] if kind in _OF_STRINGS else [None]}}
        return {"if": checked, "then": self._schema_of_kind(kind, entry)}

    def _schema_of_kind(self, kind: str, entry: Mapping[str, Any]) -> Schema | bool:
        schema: Schema | bool = kind == "AnyType"  # False for other kinds: nothing fits.
        match kind:
            case "BooleanType" | "IntegerType" | "StringType":
                schema = {"type": _SCALARS[kind]}
            case "StringLiteralType":
                schema = {"const": entry["value"]}
            case "UnionType":
                members = [self._entry(each) for each in entry["elements"]]
                literals = [each["value"] for each in members if each["$type"] == "StringLiteralType"]
                # A list of texts can be open: then the value must still be a listed one.
                schema = {"enum": literals} if literals else {"anyOf": [*map(_referred, entry["elements"])]}
            case "ArrayType":
                schema = {"type": "array", "items": _referred(entry["itemType"])}
            case "ObjectType":
                schema = _schema_of_object(entry, entry["properties"])
            case "DiscriminatedObjectType":
                schema = self._schema_of_alternatives(entry)
        bounds = {name: entry[bound] for bound, name in _BOUNDS.get(kind, {}).items() if bound in entry}
        return {**schema, **bounds} if isinstance(schema, dict) else schema

    def _schema_of_alternatives(self, entry: Mapping[str, Any]) -> Schema:
        by, base = entry["discriminator"], entry.get("baseProperties", {})
        elements = {name: self._entry(each) for name, each in entry["elements"].items()}
        return {
            "type": "object",
            "properties": {by: {"enum": [*elements, None, _WRITTEN]}},
            "required": [by],
            "allOf": [
                {
                    "if": {"properties": {by: {"const": name}}},
                    "then": _schema_of_object(each, {**base, **each["properties"]}),
                }
                for name, each in elements.items()
            ],
        }

    def _entry(self, reference: Mapping[str, str]) -> Mapping[str, Any]:
        return self.file[int(reference["$ref"].removeprefix("#/"))]


def faults_of(body: Mapping[str, Value], resource: Type) -> Iterator[str]:
    """Yield the properties of a resource's body that its type does not allow, and the missing ones."""
    given: Value = {name: value for name, value in body.items() if name not in _OF_BICEP}
    for error in validator_for(resource.schema).iter_errors(_plain(given)):
        yield f"{''.join(f'.{part}' for part in error.instance_path)}: {error.message}"


def unknown_read(path: Sequence[str], resource: Type) -> str | None:
    """Return the first name on a path into a deployed resource that its type does not have."""
    of: Any = resource.schema
    for name in path:
        schema = resource.schema["$defs"][of["$ref"].rpartition("/")[2]]["then"]
        if schema is True or schema.get("type") != "object":
            return None
        parts = [schema, *(each["then"] for each in schema.get("allOf", ()))]
        found = [part["properties"].get(name) or part.get("additionalProperties") for part in parts]
        of = next((each for each in found if each and "$ref" in each), None)
        if of is None:
            return name
    return None


def _schema_of_object(entry: Mapping[str, Any], declared: Mapping[str, Any]) -> Schema:
    further = entry.get("additionalProperties")
    read_only = {name: {"allOf": [False]} for name, each in declared.items() if each["flags"] & _READ_ONLY}
    return {
        "type": "object",
        # The folder leaves out descriptions, and with them every property of that name.
        "properties": {"description": {}}
        | {name: {**_referred(each["type"]), **read_only.get(name, {})} for name, each in declared.items()},
        "required": [name for name, each in declared.items() if each["flags"] & _REQUIRED],
        "additionalProperties": _referred(further) if further else False,
    }


def _referred(reference: Mapping[str, str]) -> Schema:
    return {"$ref": reference["$ref"].replace("#/", "#/$defs/")}


def _plain(value: Value) -> Any:
    """Return a value for the comparison, without properties that are null."""
    match value:
        case Unresolved(written=is_written):
            return _WRITTEN if is_written else None
        case dict():
            return {name: _plain(each) for name, each in value.items() if each is not None}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value
