"""What an expression is worth, as far as it is known without Azure."""

from __future__ import annotations

from dataclasses import dataclass

type Value = str | int | bool | list[Value] | dict[str, Value] | Unresolved | None


@dataclass(frozen=True, slots=True)
class Unresolved:
    """What only Azure knows, or is not evaluated here.

    `text` is the expression, or with `written` a text with `${expression}` in it. `resource_type` is that
    of the resource that it is about.
    """

    text: str
    resource_type: str | None = None
    written: bool = False


def is_empty(value: Value) -> bool:
    """Tell whether a value is nothing; what only Azure knows is something."""
    return not isinstance(value, Unresolved) and value in (None, "", [], {})


def member(value: Value, name: str) -> Value:
    """Give a property of a value, or `None`. Below what is unresolved, everything is."""
    match value:
        case Unresolved(text, resource_type):
            return Unresolved(f"{text}.{name}", resource_type)
        case dict():
            return value.get(name)
        case _:
            return None


def at(value: Value, *path: str) -> Value:
    """Give a property of a property, and so on, or `None`."""
    for name in path:
        value = member(value, name)
    return value


def items_of(value: Value) -> list[Value]:
    """Give the items of a list, and none of anything else."""
    return value if isinstance(value, list) else []


def properties_of(value: Value) -> dict[str, Value]:
    """Give the properties of an object, and none of anything else."""
    return value if isinstance(value, dict) else {}


def shown(value: Value) -> str:
    """Write a value into a text, as Bicep does."""
    match value:
        case Unresolved(text, written=True):
            return text
        case Unresolved(text):
            return f"${{{text}}}"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
