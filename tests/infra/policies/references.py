"""What a compiler would find: undeclared names, and modules called with the wrong parameters."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from tests.infra.bicep.template import Resource, Template, named, read_template, text_of, walk
from tests.infra.infrastructure import Infrastructure

#: The Bicep functions that the templates call.
_FUNCTIONS = {
    "concat",
    "contains",
    "empty",
    "endsWith",
    "environment",
    "filter",
    "flatten",
    "guid",
    "items",
    "join",
    "last",
    "length",
    "loadJsonContent",
    "loadTextContent",
    "map",
    "max",
    "newGuid",
    "range",
    "reduce",
    "replace",
    "resourceId",
    "split",
    "startsWith",
    "string",
    "subscription",
    "subscriptionResourceId",
    "substring",
    "tenant",
    "toObject",
    "toUpper",
    "union",
    "uniqueString",
    "uriComponent",
}


def names_are_declared(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each name in an expression is declared in the file, imported, or a Bicep function."""
    for template in infrastructure.templates:
        imported = {name for each in template.imports for name in each.names}
        known = imported | template.parameters.keys() | template.variables.keys() | template.functions.keys()
        known |= template.resources.keys() | template.modules.keys() | _FUNCTIONS
        for name in sorted(set(_free_names(template)) - known):
            yield f"{template.path.name}: {name} is not declared"


def imported_names_are_exported(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that every imported name exists, and is marked `@export()`."""
    for template in infrastructure.templates:
        for taken in template.imports:
            source = read_template((template.path.parent / taken.source).resolve())
            for name in taken.names:
                if name not in source.exported:
                    yield f"{template.path.name}: {taken.source} exports no {name}"


def modules_get_their_parameters(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that a module gets every parameter without a default, and no unknown one."""
    for template, module, inner in _calls(infrastructure):
        given = set(_arguments(module))
        asked = {name for name, declared in inner.parameters.items() if declared.value is None}
        for name in sorted(asked - given):
            yield f"{template.path.name}: {module.name} needs {name}"
        for name in sorted(given - inner.parameters.keys()):
            yield f"{template.path.name}: {module.name} takes no {name}"


def outputs_that_are_read_exist(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that each output that is read from a module exists."""
    for template, module, inner in _calls(infrastructure):
        for name in sorted(set(_outputs_read(template, module)) - inner.outputs.keys()):
            yield f"{template.path.name}: {module.name} has no output {name}"


def _calls(infrastructure: Infrastructure) -> Iterator[tuple[Template, Resource, Template]]:
    """Yield each module with the template that calls it and its own template."""
    for template in infrastructure.templates:
        for module in template.modules.values():
            path = (template.path.parent / module.source).resolve()
            if path.is_file():
                yield template, module, read_template(path)


def _arguments(module: Resource) -> Iterator[str]:
    for node in walk(module.body):
        if node.type == "object_property" and text_of(named(node)[0]) == "params":
            yield from (text_of(named(each)[0]) for each in named(named(node)[1]))


def _outputs_read(template: Template, module: Resource) -> Iterator[str]:
    for node in walk(template.root):
        if node.type == "member_expression":
            owner, name = named(node)
            if [text_of(each).partition("[")[0] for each in named(owner)] == [module.name, "outputs"]:
                yield text_of(name)


def _free_names(template: Template) -> Iterator[str]:
    for each in (*template.parameters.values(), *template.variables.values(), *template.outputs.values()):
        if each.value is not None:
            yield from _used(each.value, frozenset())
    for function in template.functions.values():
        if function.type is not None and function.value is not None:
            own = frozenset(text_of(named(each)[0]) for each in named(function.type))
            yield from _used(function.value, own)
    for placed in (*template.resources.values(), *template.modules.values()):
        yield from _used(placed.body, frozenset())


def _used(node: Node, bound: frozenset[str]) -> Iterator[str]:
    """Yield the names in an expression except those in `bound`: of enclosing loops, functions and lambdas."""
    parts = named(node)
    match node.type:
        case "identifier":
            if (name := text_of(node)) not in bound:
                yield name
        case "member_expression":
            yield from _used(parts[0], bound)
        case "object_property" if parts[0].type == "identifier":
            yield from _used(parts[1], bound)
        case "for_statement":
            *head, collection, body = parts
            yield from _used(collection, bound)
            yield from _used(body, bound | _names_in(head))
        case "lambda_expression":
            *head, body = parts
            yield from _used(body, bound | _names_in(head))
        case _:
            for part in parts:
                yield from _used(part, bound)


def _names_in(head: list[Node]) -> frozenset[str]:
    return frozenset(text_of(name) for each in head for name in (named(each) or [each]))
