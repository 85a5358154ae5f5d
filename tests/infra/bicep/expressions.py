"""Evaluates expressions of a Bicep file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import gt, mul, sub

from tree_sitter import Node

from tests.infra.bicep.template import named, text_of
from tests.infra.bicep.values import Unresolved, Value, at, shown

#: Resolves a name in an expression to a value or a function.
Names = Callable[[str], Value]


class UnreadableError(Exception):
    """It is unknown what is deployed: a condition has no known value, or an expression is misread."""


def evaluate(node: Node, names: Names) -> Value:
    """Evaluate an expression. Raises `UnreadableError`."""
    handler = _HANDLERS.get(node.type)
    return Unresolved(text_of(node)) if handler is None else handler(node, names)


def holds(node: Node, names: Names) -> bool:
    """Evaluate a condition. Raises `UnreadableError` when it depends on values that only Azure knows."""
    value = evaluate(node, names)
    if not isinstance(value, bool):
        raise UnreadableError(f"'{text_of(node)}' is not known before the deployment to be true or false")
    return value


def inside(own: Mapping[str, Value], around: Names) -> Names:
    """Return the scope inside a loop or a function: its own names, then the outer ones."""
    return lambda name: own[name] if name in own else around(name)


def expand(node: Node, names: Names) -> Iterator[tuple[Node, Names]]:
    """Yield the bodies that a loop or a condition produces, each with its scope. Raises `UnreadableError`."""
    match node.type:
        case "for_statement":
            *head, collection, body = named(node)
            items = evaluate(collection, names)
            loop = [text_of(name) for each in head for name in (named(each) or [each])]
            for index, item in enumerate(items if isinstance(items, list) else [items]):
                own = dict(zip(loop, (item, index), strict=False))
                yield from expand(body, inside(own, names))
        case "if_statement":
            condition, body = named(node)
            if holds(condition, names):
                yield body, names
        case _:
            yield node, names


def _string(node: Node, names: Names) -> Value:
    parts = [_part(part, names) for part in named(node)]
    written = "".join(map(shown, parts))
    unresolved = [part for part in parts if isinstance(part, Unresolved)]
    if not unresolved:
        return written
    first = unresolved[0]
    return Unresolved(written, first.resource_type, written=True, owner=first.owner)


def _part(part: Node, names: Names) -> Value:
    match part.type:
        case "interpolation":
            return evaluate(named(part)[0], names)
        case "escape_sequence":
            return text_of(part)[1:]
        case _:
            return text_of(part)


def _object(node: Node, names: Names) -> Value:
    properties = [named(each) for each in named(node) if each.type == "object_property"]
    return {
        shown(evaluate(key, names)) if key.type == "string" else text_of(key): evaluate(value, names)
        for key, value in properties
    }


def _member(node: Node, names: Names) -> Value:
    owner, name = named(node)
    return at(_owner(owner, names), text_of(name))


def _subscript(node: Node, names: Names) -> Value:
    before, inner = named(node)
    owner, key = _owner(before, names), evaluate(inner, names)
    match owner:
        case dict():
            return owner.get(str(key))
        case list() if isinstance(key, int):
            return owner[key]
        case Unresolved(text, resource_type, owner=owner):
            return Unresolved(f"{text}[{shown(key)}]", resource_type, owner=owner)
        case None:
            return None
        case _:
            return Unresolved(text_of(node))


def _owner(node: Node, names: Names) -> Value:
    """Evaluate what a property or an item is taken of."""
    if node.type in _BINDS_LESS:
        raise UnreadableError(
            f"the parser takes a property of '{text_of(node)}': put the part in parentheses"
        )
    return evaluate(node, names)


def _call(node: Node, names: Names) -> Value:
    function, arguments = named(node)
    name, given = text_of(function), [evaluate(each, names) for each in named(arguments)]
    known = names(name)
    if not callable(known):
        return Unresolved(f"{name}({', '.join(map(shown, given))})")
    result: Value = known(*given)
    return result


def _lambda(node: Node, names: Names) -> Value:
    *head, body = named(node)
    own = [text_of(name) for each in head for name in (named(each) or [each])]
    return lambda *given: evaluate(body, inside(dict(zip(own, given, strict=True)), names))


def _ternary(node: Node, names: Names) -> Value:
    condition, then, otherwise = named(node)
    return evaluate(then if holds(condition, names) else otherwise, names)


def _binary(node: Node, names: Names) -> Value:  # noqa: PLR0911 - one for each operator
    left, right = named(node)
    first = evaluate(left, names)
    if (operator := text_of(node.children[1])) == "??":
        return evaluate(right, names) if first is None else first
    match operator, first, evaluate(right, names):
        case "==", str() | int() as one, str() | int() as other:
            return one == other
        case "&&", bool() as one, bool() as other:
            return one and other
        case "||", bool() as one, bool() as other:
            return one or other
        case "!=", str() | int() | None as one, str() | int() | None as other:
            return one != other
        case (">" | "-" | "*") as symbol, int() as one, int() as other:
            return _OF_NUMBERS[symbol](one, other)
        case _:
            return Unresolved(text_of(node))


#: After these, the parser takes `.name` for a property of the whole: `a && b.c` for `(a && b).c`.
_BINDS_LESS = {"binary_expression", "lambda_expression", "ternary_expression", "unary_expression"}

_OF_NUMBERS: dict[str, Callable[[int, int], Value]] = {">": gt, "-": sub, "*": mul}


def _unary(node: Node, names: Names) -> Value:
    (operand,) = named(node)
    return not holds(operand, names) if node.children[0].type == "!" else Unresolved(text_of(node))


_HANDLERS: dict[str, Callable[[Node, Names], Value]] = {
    "array": lambda node, names: [evaluate(each, names) for each in named(node)],
    "binary_expression": _binary,
    "boolean": lambda node, _: text_of(node) == "true",
    "call_expression": _call,
    "for_statement": lambda node, names: [evaluate(*each) for each in expand(node, names)],
    "identifier": lambda node, names: names(text_of(node)),
    "lambda_expression": _lambda,
    "member_expression": _member,
    "null": lambda *_: None,
    "number": lambda node, _: int(text_of(node)),
    "object": _object,
    "parenthesized_expression": lambda node, names: evaluate(named(node)[0], names),
    "string": _string,
    "subscript_expression": _subscript,
    "ternary_expression": _ternary,
    "unary_expression": _unary,
}
