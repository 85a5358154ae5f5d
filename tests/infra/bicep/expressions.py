"""Evaluates expressions of a Bicep file, with the Bicep functions that the templates use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import add, and_, eq, gt, mul, ne, or_, sub
from typing import Final
from urllib.parse import quote

from tree_sitter import Node

from tests.infra.bicep.template import named, names_in, text_of
from tests.infra.bicep.values import Function, Unresolved, Value, at, shown

#: Resolves a name in an expression to a value or a function.
Names = Callable[[str], Value]


class UnreadableError(Exception):
    """The plan cannot be computed: a condition has no value, or an expression is misread."""


def evaluate(node: Node, names: Names) -> Value:
    """Evaluate an expression. Raises `UnreadableError`."""
    handler = _HANDLERS.get(node.type)
    return Unresolved(text_of(node)) if handler is None else handler(node, names)


def inside(own: Mapping[str, Value], around: Names) -> Names:
    """Return the scope inside a loop or a function: its own names, then the outer ones."""
    return lambda name: own[name] if name in own else around(name)


def loop(node: Node, names: Names) -> Iterator[tuple[Node, Names]]:
    """Yield the body of a loop for each item, with its scope; the conditions of items are not evaluated."""
    *head, collection, body = named(node)
    items = evaluate(collection, names)
    for index, item in enumerate(items if isinstance(items, list) else [items]):
        yield body, inside(dict(zip(names_in(head), (item, index), strict=False)), names)


def expand(node: Node, names: Names) -> Iterator[tuple[Node, Names]]:
    """Yield the bodies that a loop or a condition produces, each with its scope. Raises `UnreadableError`."""
    match node.type:
        case "for_statement":
            for each in loop(node, names):
                yield from expand(*each)
        case "if_statement":
            condition, body = named(node)
            if _holds(condition, names):
                yield body, names
        case _:
            yield node, names


def _holds(node: Node, names: Names) -> bool:
    """Evaluate a condition. Raises `UnreadableError` when it depends on values that only Azure computes."""
    value = evaluate(node, names)
    if not isinstance(value, bool):
        raise UnreadableError(f"'{text_of(node)}' is neither true nor false before the deployment")
    return value


def _string(node: Node, names: Names) -> Value:
    parts = [_part(part, names) for part in named(node)]
    written = "".join(map(shown, parts))
    first = next((part for part in parts if isinstance(part, Unresolved)), None)
    if first is None:
        return written
    return Unresolved(written, first.resource_type, written=True, owner=first.owner)


def _part(part: Node, names: Names) -> Value:
    if part.type == "interpolation":
        return evaluate(named(part)[0], names)
    return text_of(part).removeprefix("\\")


def _object(node: Node, names: Names) -> Value:
    properties = [named(each) for each in named(node) if each.type == "object_property"]
    return {
        shown(evaluate(key, names)) if key.type == "string" else text_of(key): evaluate(value, names)
        for key, value in properties
    }


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


#: After these, the parser takes `.name` for a property of the whole: `a && b.c` for `(a && b).c`.
_BINDS_LESS = {"binary_expression", "lambda_expression", "ternary_expression", "unary_expression"}


def _owner(node: Node, names: Names) -> Value:
    """Evaluate the part of an expression before a property's name or an index."""
    if node.type in _BINDS_LESS:
        raise UnreadableError(
            f"the parser takes a property of '{text_of(node)}': put the part in parentheses"
        )
    return evaluate(node, names)


def _call(node: Node, names: Names) -> Value:
    function, arguments = named(node)
    name, given = text_of(function), [evaluate(each, names) for each in named(arguments)]
    called = names(name)
    if not callable(called):
        return Unresolved(f"{name}({', '.join(map(shown, given))})")
    result: Value = called(*given)
    return result


def _lambda(node: Node, names: Names) -> Value:
    *head, body = named(node)
    return lambda *given: evaluate(body, inside(dict(zip(names_in(head), given, strict=True)), names))


def _ternary(node: Node, names: Names) -> Value:
    condition, then, otherwise = named(node)
    return evaluate(then if _holds(condition, names) else otherwise, names)


_Plain = str | int | None

#: The operators, and the types of the values that each is evaluated for.
_OPERATORS: dict[str, tuple[Function, object]] = {
    "==": (eq, str | int),
    "!=": (ne, _Plain),
    "&&": (and_, bool),
    "||": (or_, bool),
    ">": (gt, int),
    "-": (sub, int),
    "*": (mul, int),
}


def _binary(node: Node, names: Names) -> Value:
    left, right = named(node)
    first, operator = evaluate(left, names), text_of(node.children[1])
    if operator == "??":
        return evaluate(right, names) if first is None else first
    function, kind = _OPERATORS.get(operator, (eq, ()))
    second = evaluate(right, names)
    is_plain = isinstance(first, kind) and isinstance(second, kind)
    result: Value = function(first, second) if is_plain else Unresolved(text_of(node))
    return result


def _unary(node: Node, names: Names) -> Value:
    (operand,) = named(node)
    return not _holds(operand, names) if node.children[0].type == "!" else Unresolved(text_of(node))


_HANDLERS: dict[str, Callable[[Node, Names], Value]] = {
    "array": lambda node, names: [evaluate(each, names) for each in named(node)],
    "binary_expression": _binary,
    "boolean": lambda node, _: text_of(node) == "true",
    "call_expression": _call,
    "for_statement": lambda node, names: [evaluate(*each) for each in expand(node, names)],
    "identifier": lambda node, names: names(text_of(node)),
    "lambda_expression": _lambda,
    "member_expression": lambda node, names: at(_owner(named(node)[0], names), text_of(named(node)[1])),
    "null": lambda *_: None,
    "number": lambda node, _: int(text_of(node)),
    "object": _object,
    "parenthesized_expression": lambda node, names: evaluate(named(node)[0], names),
    "string": _string,
    "subscript_expression": _subscript,
    "ternary_expression": _ternary,
    "unary_expression": _unary,
}


def _filtered(of: list[Value], condition: Function) -> Value:
    """Return the items for which `condition` is true. Raises `UnreadableError` when it has no value."""
    answers = [condition(each) for each in of]
    if not all(isinstance(answer, bool) for answer in answers):
        raise UnreadableError(f"a filter's condition is {answers}, neither true nor false")
    return [each for each, answer in zip(of, answers, strict=True) if answer]


def _unless_unresolved(function: Function) -> Function:
    """Return a function that returns the first of its arguments that is unresolved, if there is one."""

    def called(*arguments: Value) -> Value:
        unresolved = [each for each in arguments if isinstance(each, Unresolved)]
        return unresolved[0] if unresolved else function(*arguments)

    return called


#: Addresses of the public cloud.
_ENVIRONMENT: Final[dict[str, Value]] = {
    "authentication": {"loginEndpoint": "https://login.microsoftonline.com/"},
    "portal": "https://portal.azure.com",
    "suffixes": {"storage": "core.windows.net"},
}

_OF_VALUES: Final[dict[str, Function]] = {
    "contains": lambda of, item: item in of,
    "concat": lambda *lists: reduce(add, lists),
    "endsWith": str.endswith,
    "filter": _filtered,
    "flatten": lambda lists: reduce(add, lists, []),
    "items": lambda of: [{"key": key, "value": value} for key, value in sorted(of.items())],
    "join": lambda of, between: between.join(of),
    "last": lambda of: of[-1],
    "length": len,
    "map": lambda of, result: [result(each) for each in of],
    "max": max,
    "range": lambda start, count: list(range(start, start + count)),
    "replace": str.replace,
    "split": lambda text, between: text.split(between),
    "startsWith": str.startswith,
    "string": shown,
    "substring": lambda text, start, count: text[start : start + count],
    "toObject": lambda of, key, value: {key(each): value(each) for each in of},
    "toUpper": str.upper,
    "union": lambda *objects: reduce(or_, objects),
    "uriComponent": lambda text: quote(text, safe=""),
}

BUILTINS: Final[dict[str, Function]] = {
    **{name: _unless_unresolved(function) for name, function in _OF_VALUES.items()},
    "empty": lambda value: not isinstance(value, Unresolved) and value in (None, "", [], {}),
    "environment": lambda: _ENVIRONMENT,
    "uniqueString": lambda *_: "abcdefghijklm",
}
