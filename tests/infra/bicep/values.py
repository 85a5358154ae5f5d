"""What an expression is worth, as far as it is known without Azure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

type Function = Callable[..., Value]
type Value = str | int | bool | list[Value] | dict[str, Value] | Unresolved | Function | None


@dataclass(frozen=True, slots=True)
class Unresolved:
    """What only Azure knows, or is not evaluated here.

    `text` is the expression, or with `written` a text with `${expression}` in it. `resource_type` is that
    of the resource that it is about.
    """

    text: str
    resource_type: str | None = None
    written: bool = False


def at(value: Value, *path: str) -> Value:
    """Give a property of a property, and so on, or `None`. Below what is unresolved, everything is."""
    for name in path:
        match value:
            case Unresolved(text, resource_type):
                value = Unresolved(f"{text}.{name}", resource_type)
            case dict():
                value = value.get(name)
            case _:
                return None
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
        case Unresolved(text, written=written):
            return text if written else f"${{{text}}}"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
