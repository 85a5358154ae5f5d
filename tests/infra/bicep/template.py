"""Parses a Bicep file into declarations; expressions stay syntax until `expressions.py` evaluates them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tree_sitter_bicep
from tree_sitter import Language, Node, Parser

_BICEP = Language(tree_sitter_bicep.language())

#: The nodes of a declaration's type; for a function, its parameters come before its return type.
_TYPES = {"parameters", "type"}


class SyntaxFaultError(Exception):
    """A file is not valid Bicep for the grammar; the text names the line."""


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
    decorators: dict[str, tuple[Node, ...]]
    body: Node


class Template:
    """A parsed file, with declarations by name. `imports` are names and the files that export them."""

    def __init__(self, path: Path) -> None:
        self.path, self.root = path, parse(path.read_bytes(), path.name)
        self.parameters = self._of("parameter_declaration", _declaration)
        self.variables = self._of("variable_declaration", _declaration)
        self.outputs = self._of("output_declaration", _declaration)
        self.functions = self._of("user_defined_function", _declaration)
        self.resources = self._of("resource_declaration", _resource)
        self.modules = self._of("module_declaration", _resource)
        imports = [named(node) for node in self.root.children if node.type == "import_functionality"]
        self.imports = {
            text_of(each): text_of(named(source)[0]) for *names, source in imports for each in names
        }
        exporting = [node for node in self.root.children if "export" in decorators_of(node)]
        self.exported = {text_of(named(node)[0]) for node in exporting}

    def _of[Kind](self, kind: str, read: Callable[[Node], Kind]) -> dict[str, Kind]:
        return {text_of(named(node)[0]): read(node) for node in self.root.children if node.type == kind}

    def sources(self) -> Iterator[str]:
        """Yield the path of each module and each import, as it is written."""
        yield from (module.source for module in self.modules.values())
        yield from self.imports.values()

    def file(self, source: str) -> Path:
        """Return the path of another file, from its path relative to this template."""
        return (self.path.parent / source).resolve()

    def calls(self) -> Iterator[tuple[Resource, Template]]:
        """Yield each module with its template, if the file exists."""
        for module in self.modules.values():
            if self.file(module.source).is_file():
                yield module, read_template(self.file(module.source))


@cache
def read_template(path: Path) -> Template:
    """Parse a file, with a cache. Raises `SyntaxFaultError` if any part of it cannot be parsed."""
    return Template(path)


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


def names_in(head: list[Node]) -> list[str]:
    """Return the variables that the head of a loop or of a lambda declares."""
    return [text_of(name) for each in head for name in (named(each) or [each])]


def properties_in(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the names and values of an object's properties, and of all objects below it."""
    for each in walk(node):
        if each.type == "object_property" and len(parts := named(each)) > 1:
            yield text_of(parts[0]), parts[1]


def within(value: Node, name: str) -> bool:
    """Return whether a property's value is in the object that is the value of the property `name`."""
    object_of = value.parent and value.parent.parent
    outer = object_of and object_of.parent
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
    first_type, first_value = (next(iter(each), None) for each in (types, values))
    return Declaration(text_of(name), decorators_of(node), first_type, first_value)


def _resource(node: Node) -> Resource:
    name, source, body = named(node)
    existing = any(child.type == "existing" for child in node.children)
    return Resource(text_of(name), text_of(named(source)[0]), existing, decorators_of(node), body)
