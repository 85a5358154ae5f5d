"""Evaluates expressions of a Bicep file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tree_sitter import Node

from tests.infra.bicep.builtins import call
from tests.infra.bicep.template import named, text_of
from tests.infra.bicep.values import Unresolved, Value, member, shown

_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r"}


class UnreadableError(Exception):
    """A condition hangs on what is not known here, so that nobody can say what is deployed."""


class Names(Protocol):
    """What the names in an expression stand for."""

    @property
    def folder(self) -> Path:
        """Give the folder that paths start from."""

    def value_of(self, name: str) -> Value:
        """Give the value of a name."""

    def called(self, name: str, arguments: list[Value]) -> Value | None:
        """Evaluate a function of the file's own, or give `None` when there is none of that name."""


def evaluate(node: Node, names: Names) -> Value:
    """Evaluate an expression. Raises `UnreadableError`."""
    handler = _HANDLERS.get(node.type)
    return Unresolved(text_of(node)) if handler is None else handler(node, names)


def holds(node: Node, names: Names) -> bool:
    """Evaluate a condition. Raises `UnreadableError` when it hangs on what only Azure knows."""
    value = evaluate(node, names)
    if isinstance(value, Unresolved):
        raise UnreadableError(f"{names.folder.name}: '{text_of(node)}' can't be told beforehand")
    return bool(value)


@dataclass(frozen=True, slots=True)
class Within:
    """The names inside of a loop or a function: its own, and then those around it."""

    own: Mapping[str, Value]
    around: Names

    @property
    def folder(self) -> Path:
        """Give the folder that paths start from."""
        return self.around.folder

    def value_of(self, name: str) -> Value:
        """Give the value of a name."""
        return self.own[name] if name in self.own else self.around.value_of(name)

    def called(self, name: str, arguments: list[Value]) -> Value | None:
        """Evaluate a function of the file's own."""
        return self.around.called(name, arguments)


def expand(node: Node, names: Names) -> Iterator[tuple[Node, Names]]:
    """Give what a loop or a condition makes, each with the names that it sees. Raises `UnreadableError`."""
    match node.type:
        case "for_statement":
            *head, collection, body = named(node)
            turns = evaluate(collection, names)
            loop = [text_of(name) for each in head for name in (named(each) or [each])]
            for index, turn in enumerate(turns if isinstance(turns, list) else [turns]):
                own = dict(zip(loop, (turn, index), strict=False))
                yield from expand(body, Within(own, names))
        case "if_statement":
            condition, body = named(node)
            if holds(condition, names):
                yield body, names
        case _:
            yield node, names


def _loop(node: Node, names: Names) -> Value:
    return [evaluate(body, inside) for body, inside in expand(node, names)]


def _text(node: Node, names: Names) -> Value:
    parts = [_part(part, names) for part in named(node)]
    written = "".join(part if isinstance(part, str) else shown(part) for part in parts)
    unresolved = [part for part in parts if isinstance(part, Unresolved)]
    return Unresolved(written, unresolved[0].resource_type, written=True) if unresolved else written


def _part(part: Node, names: Names) -> Value:
    match part.type:
        case "interpolation":
            return evaluate(named(part)[0], names)
        case "escape_sequence":
            return _ESCAPES.get(text_of(part), text_of(part)[1:])
        case _:
            return text_of(part)


def _object(node: Node, names: Names) -> Value:
    properties = [named(each) for each in named(node) if each.type == "object_property"]
    return {_key(key, names): evaluate(value, names) for key, value in properties}


def _key(node: Node, names: Names) -> str:
    return shown(evaluate(node, names)) if node.type == "string" else text_of(node)


def _array(node: Node, names: Names) -> Value:
    return [evaluate(each, names) for each in named(node)]


def _member(node: Node, names: Names) -> Value:
    owner, name = named(node)
    return member(evaluate(owner, names), text_of(name))


def _subscript(node: Node, names: Names) -> Value:
    owner, key = (evaluate(each, names) for each in named(node))
    match owner, key:
        case dict(), str():
            return owner.get(key)
        case list(), int():
            return owner[key]
        case Unresolved(text, resource_type), _:
            return Unresolved(f"{text}[{shown(key)}]", resource_type)
        case _:
            return Unresolved(text_of(node))


def _call(node: Node, names: Names) -> Value:
    function, arguments = named(node)
    name, given = text_of(function), [evaluate(each, names) for each in named(arguments)]
    if name == "loadJsonContent":
        read: Value = json.loads((names.folder / str(given[0])).read_text())
        return read
    if name == "loadTextContent":
        return (names.folder / str(given[0])).read_text()
    own = names.called(name, given)
    return call(name, given) if own is None else own


def _ternary(node: Node, names: Names) -> Value:
    condition, then, otherwise = named(node)
    return evaluate(then if holds(condition, names) else otherwise, names)


def _binary(node: Node, names: Names) -> Value:
    left, right = named(node)
    first = evaluate(left, names)
    match text_of(node.children[1]):
        case "??":
            return evaluate(right, names) if first is None else first
        case "&&":
            return holds(left, names) and holds(right, names)
        case "||":
            return holds(left, names) or holds(right, names)
        case operator:
            return _compared(operator, first, evaluate(right, names), node)


def _compared(operator: str, first: Value, second: Value, node: Node) -> Value:
    if isinstance(first, Unresolved) or isinstance(second, Unresolved):
        return Unresolved(text_of(node))
    if operator in {"==", "!="}:
        return (first == second) is (operator == "==")
    if operator == ">" and isinstance(first, int) and isinstance(second, int):
        return first > second
    return Unresolved(text_of(node))


def _unary(node: Node, names: Names) -> Value:
    (operand,) = named(node)
    if node.children[0].type == "!":
        return not holds(operand, names)
    value = evaluate(operand, names)
    return -value if isinstance(value, int) else Unresolved(text_of(node))


def _number(node: Node, _names: Names) -> Value:
    return int(text_of(node))


def _boolean(node: Node, _names: Names) -> Value:
    return text_of(node) == "true"


def _null(_node: Node, _names: Names) -> Value:
    return None


def _inner(node: Node, names: Names) -> Value:
    return evaluate(named(node)[0], names)


def _identifier(node: Node, names: Names) -> Value:
    return names.value_of(text_of(node))


_HANDLERS: dict[str, Callable[[Node, Names], Value]] = {
    "array": _array,
    "binary_expression": _binary,
    "boolean": _boolean,
    "call_expression": _call,
    "for_statement": _loop,
    "identifier": _identifier,
    "member_expression": _member,
    "null": _null,
    "number": _number,
    "object": _object,
    "parenthesized_expression": _inner,
    "string": _text,
    "subscript_expression": _subscript,
    "ternary_expression": _ternary,
    "unary_expression": _unary,
}
