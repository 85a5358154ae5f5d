"""Compares values of a template with Azure's published types (the format of Azure/bicep-types-az)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.infra.bicep.values import Unresolved, Value, shown

_REQUIRED, _READ_ONLY = 1, 2

#: The properties of a resource's body that Bicep itself reads.
_OF_BICEP = {"parent", "scope", "dependsOn"}

#: The folder leaves out descriptions, and with them every property of that name.
_LEFT_OUT = "description"

_KINDS: dict[str, type] = {"BooleanType": bool, "IntegerType": int, "StringType": str}


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """One entry of a file of types, which refer to each other by their index."""

    file: Sequence[Mapping[str, Any]]
    entry: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Return the entry's kind, such as `ObjectType`."""
        return str(self.entry["$type"])

    def referred(self, reference: Mapping[str, str]) -> Type:
        """Follow a reference to another entry."""
        return Type(self.file, self.file[int(reference["$ref"].removeprefix("#/"))])

    @property
    def body(self) -> Type:
        """Return the type of a resource's body."""
        return self.referred(self.entry["body"])

    def elements(self) -> Iterator[Type]:
        """Yield the alternatives of a union or of a discriminated object."""
        of = self.entry["elements"]
        yield from map(self.referred, of.values() if isinstance(of, dict) else of)

    def member(self, name: str) -> Type | None:
        """Return the type of a property, also of one that only some alternatives have."""
        if self.kind == "DiscriminatedObjectType":
            found = [each.member(name) for each in self.elements()]
            return next((each for each in found if each), self._property("baseProperties", name))
        further = self.entry.get("additionalProperties")
        return self._property("properties", name) or (self.referred(further) if further else None)

    def _property(self, where: str, name: str) -> Type | None:
        declared = self.entry.get(where, {}).get(name)
        return self.referred(declared["type"]) if declared else None


def faults_of(body: Mapping[str, Value], resource: Type) -> Iterator[str]:
    """Yield the properties of a resource's body that its type does not allow, and the missing ones."""
    given: Value = {name: value for name, value in body.items() if name not in _OF_BICEP}
    yield from _faults(given, resource.body, "")


def unknown_read(path: Sequence[str], resource: Type) -> str | None:
    """Return the first name on a path into a deployed resource that its type does not have."""
    of = resource.body
    for name in path:
        if of.kind in {"ObjectType", "DiscriminatedObjectType"}:
            found = of.member(name)
            if found is None:
                return name
            of = found
    return None


def _faults(value: Value, of: Type, path: str) -> Iterator[str]:
    """Compare a value; null fits, and so does a value that only Azure can compute."""
    if value is None or (isinstance(value, Unresolved) and not value.written):
        return
    match of.kind, value:
        case "ObjectType", dict():
            yield from _of_object(value, of, of.entry["properties"], path)
        case "DiscriminatedObjectType", dict():
            yield from _of_alternative(value, of, path)
        case "ArrayType", list():
            item = of.referred(of.entry["itemType"])
            for index, each in enumerate(value):
                yield from _faults(each, item, f"{path}[{index}]")
            yield from _out_of_bounds(len(value), of, "Length", f"{path} has {len(value)} items")
        case "UnionType", _:
            yield from _of_union(value, of, path)
        case "StringLiteralType", str() if value != of.entry["value"]:
            yield f"{path} is '{value}', not '{of.entry['value']}'"
        case (("AnyType" | "StringLiteralType"), _):
            pass
        case _:
            yield from _of_scalar(value, of, path)


def _of_object(value: dict[str, Value], of: Type, declared: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, each in value.items():
        inner = of.member(name)
        if inner is None:
            if name != _LEFT_OUT:
                yield f"{path}.{name} does not exist"
        elif declared.get(name, {}).get("flags", 0) & _READ_ONLY:
            yield f"{path}.{name} can't be set"
        else:
            yield from _faults(each, inner, f"{path}.{name}")
    for name, each in declared.items():
        if each["flags"] & _REQUIRED and value.get(name) is None:
            yield f"{path}.{name} is missing"


def _of_alternative(value: dict[str, Value], of: Type, path: str) -> Iterator[str]:
    by, elements = of.entry["discriminator"], of.entry["elements"]
    chosen = value.get(by)
    if isinstance(chosen, str) and chosen in elements:
        element, base = of.referred(elements[chosen]), of.entry.get("baseProperties", {})
        known = {**base, **element.entry["properties"]}
        whole = Type(of.file, {**element.entry, "properties": known})
        yield from _of_object(value, whole, known, path)
    elif not isinstance(chosen, Unresolved):
        yield f"{path}.{by} is '{shown(chosen)}', not one of {', '.join(elements)}"


def _of_union(value: Value, of: Type, path: str) -> Iterator[str]:
    """Compare with all alternatives; a text in an open list of texts must be a listed one, too."""
    if isinstance(value, Unresolved):
        return
    literals = [str(each.entry["value"]) for each in of.elements() if each.kind == "StringLiteralType"]
    if literals and isinstance(value, str):
        if value not in literals:
            yield f"{path} is '{value}', not one of {', '.join(literals)}"
    elif all(any(True for _ in _faults(value, each, path)) for each in of.elements()) or literals:
        yield f"{path} is {shown(value)}, which fits no alternative"


def _of_scalar(value: Value, of: Type, path: str) -> Iterator[str]:
    wanted = _KINDS.get(of.kind)
    if isinstance(value, Unresolved):
        if wanted is not str:
            yield f"{path} is a text, not {of.kind}"
    elif wanted is None or not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        yield f"{path} is {shown(value)}, not {of.kind}"
    elif isinstance(value, str):
        yield from _out_of_bounds(len(value), of, "Length", f"{path} has {len(value)} characters")
        if not re.search(of.entry.get("pattern", ""), value):
            yield f"{path} is '{value}', which does not match {of.entry['pattern']}"
    elif isinstance(value, int):
        yield from _out_of_bounds(value, of, "Value", f"{path} is {value}")


def _out_of_bounds(size: int, of: Type, bound: str, what: str) -> Iterator[str]:
    low, high = of.entry.get(f"min{bound}"), of.entry.get(f"max{bound}")
    if (low is not None and size < low) or (high is not None and size > high):
        yield f"{what}, not {low} to {high}"
