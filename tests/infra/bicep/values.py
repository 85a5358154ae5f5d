"""The value of an expression, as far as it is computed without Azure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

type Function = Callable[..., Value]
type Value = str | int | bool | list[Value] | dict[str, Value] | Unresolved | Function | None


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A value that only Azure can compute, or that is not evaluated here.

    `text` is the expression, or with `written` a string that contains `${expression}`. `resource_type` is
    the type of the resource that the value belongs to. `owner` is the resource's name after those of its
    parents: one module is deployed for several apps.
    """

    text: str
    resource_type: str | None = None
    written: bool = False
    owner: str | None = field(default=None, compare=False)


def at(value: Value, *path: str) -> Value:
    """Return a nested property, or `None`. Properties of an unresolved value are unresolved."""
    for name in path:
        match value:
            case Unresolved(text, resource_type, owner=owner):
                value = Unresolved(f"{text}.{name}", resource_type, owner=owner)
            case dict():
                value = value.get(name)
            case _:
                return None
    return value


def owner_of(value: Value) -> str:
    """Return the name of the resource that an unresolved value belongs to; any other value as it is."""
    return str(value.owner) if isinstance(value, Unresolved) else str(value)


def type_of(value: Value) -> str:
    """Return the type of the resource that an unresolved value belongs to, or an empty string."""
    return (value.resource_type or "") if isinstance(value, Unresolved) else ""


def items_of(value: Value) -> list[Value]:
    """Return the items of a list; none for anything else."""
    return value if isinstance(value, list) else []


def properties_of(value: Value) -> dict[str, Value]:
    """Return the properties of an object; none for anything else."""
    return value if isinstance(value, dict) else {}


def shown(value: Value) -> str:
    """Convert a value to a string, as Bicep does."""
    match value:
        case Unresolved(text, written=written):
            return text if written else f"${{{text}}}"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
