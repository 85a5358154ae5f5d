"""Parses a Bicep file into declarations; expressions stay syntax until `expressions.py` evaluates them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tree_sitter_bicep
from tree_sitter import Language, Node, Parser

_BICEP = Language(tree_sitter_bicep.language())

#: The nodes that hold a declaration's type; for a function, its parameters come before its return type.
_TYPES = {"parameters", "type"}


class SyntaxFaultError(Exception):
    """A file is not valid Bicep for the grammar; the text says where."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A parameter, variable, output or function. A function's `type` is its parameters."""

    name: str
    decorators: dict[str, tuple[Node, ...]]
    type: Node | None
    value: Node | None


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource or a module. `source` is `type@version` or a path; `body` may be a loop or a condition."""

    name: str
    source: str
    existing: bool
    body: Node


@dataclass(frozen=True, slots=True)
class Import:
    """What one file imports from another."""

    names: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed file, with declarations by name."""

    path: Path
    root: Node
    parameters: dict[str, Declaration]
    variables: dict[str, Declaration]
    outputs: dict[str, Declaration]
    functions: dict[str, Declaration]
    resources: dict[str, Resource]
    modules: dict[str, Resource]
    imports: tuple[Import, ...]
    exported: frozenset[str]


@cache
def read_template(path: Path) -> Template:
    """Parse a file, with a cache. Raises `SyntaxFaultError` if any part of it cannot be parsed."""
    root = parse(path.read_bytes(), path.name)

    def of[Kind](kind: str, read: Callable[[Node], Kind]) -> dict[str, Kind]:
        return {text_of(named(node)[0]): read(node) for node in root.children if node.type == kind}

    return Template(
        path=path,
        root=root,
        parameters=of("parameter_declaration", _declaration),
        variables=of("variable_declaration", _declaration),
        outputs=of("output_declaration", _declaration),
        functions=of("user_defined_function", _declaration),
        resources=of("resource_declaration", _resource),
        modules=of("module_declaration", _resource),
        imports=tuple(_import(node) for node in root.children if node.type == "import_functionality"),
        exported=frozenset(
            text_of(named(node)[0]) for node in root.children if "export" in decorators_of(node)
        ),
    )


@cache
def parse(source: bytes, name: str) -> Node:
    """Parse source text, with a cache; `name` is for the error only. Raises `SyntaxFaultError`."""
    root = Parser(_BICEP).parse(source).root_node
    for node in walk(root):
        if node.is_error or node.is_missing:
            raise SyntaxFaultError(f"{name}, line {node.start_point.row + 1}: cannot be parsed")
    return root


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it."""
    yield node
    for child in node.children:
        yield from walk(child)


@cache
def text_of(node: Node | None) -> str:
    """Return a node's source text, with a cache; empty for None."""
    return "" if node is None or node.text is None else node.text.decode()


@cache
def named(node: Node) -> tuple[Node, ...]:
    """Return a node's children without punctuation and comments, with a cache."""
    return tuple(child for child in node.children if child.is_named and child.type != "comment")


def within(node: Node, name: str) -> bool:
    """Return whether a property is in the object that is the value of the property `name`."""
    outer = node.parent.parent if node.parent else None
    return outer is not None and outer.type == "object_property" and text_of(named(outer)[0]) == name


def decorators_of(node: Node) -> dict[str, tuple[Node, ...]]:
    """Read the decorators of a declaration, or of a property of a type."""
    before = node.prev_named_sibling
    while before is not None and before.type == "comment":
        before = before.prev_named_sibling
    if before is None or before.type != "decorators":
        return {}
    calls = [named(decorator)[0] for decorator in named(before)]
    return {
        text_of(call.child_by_field_name("function")): named(arguments)
        for call in calls
        if (arguments := call.child_by_field_name("arguments")) is not None
    }


def _declaration(node: Node) -> Declaration:
    name, *parts = named(node)
    types = [part for part in parts if part.type in _TYPES]
    values = [part for part in parts if part.type not in _TYPES]
    return Declaration(text_of(name), decorators_of(node), _first(types), _first(values))


def _first(nodes: list[Node]) -> Node | None:
    return nodes[0] if nodes else None


def _resource(node: Node) -> Resource:
    name, source, body = named(node)
    existing = any(child.type == "existing" for child in node.children)
    return Resource(text_of(name), text_of(named(source)[0]), existing, body)


def _import(node: Node) -> Import:
    *names, source = named(node)
    return Import(tuple(text_of(each) for each in names), text_of(named(source)[0]))
