"""The form of the templates: described, bounded, complete, and with the names that a compiler requires."""

from __future__ import annotations

from collections.abc import Iterator
from operator import gt, lt

from tree_sitter import Node

from tests.infra.bicep.expressions import BUILTINS
from tests.infra.bicep.template import (
    Declaration,
    Resource,
    Template,
    decorators_of,
    named,
    names_in,
    properties_in,
    read_template,
    text_of,
    walk,
    within,
)
from tests.infra.infrastructure import Infrastructure
from tests.infra.policies import of_templates, policy

_MOST_LINES = 300

_BOUNDS = {"minValue": lt, "minLength": lt, "maxValue": gt, "maxLength": gt}

#: The Bicep functions that the templates may call; the tests evaluate most of them.
_FUNCTIONS = BUILTINS.keys() | {
    "guid",
    "loadJsonContent",
    "loadTextContent",
    "newGuid",
    "reduce",
    "resourceId",
    "subscription",
    "subscriptionResourceId",
    "tenant",
}


@of_templates
def everything_is_described(template: Template) -> Iterator[str]:
    """Require a description of every parameter, output, and property of a type."""
    for each in (*template.parameters.values(), *template.outputs.values()):
        if "description" not in each.decorators:
            yield f"{each.name} has no @description"
    for declaration in template.root.children:
        for node in walk(declaration) if declaration.type == "type_declaration" else ():
            if node.type == "object_property" and "description" not in decorators_of(node):
                yield f"{text_of(named(node)[0])} of a type has no @description"


@of_templates
def numbers_are_bounded(template: Template) -> Iterator[str]:
    """Require bounds for every number that can be set: a mistake is refused before anything is deployed."""
    for each in template.parameters.values():
        if text_of(each.type) == "int" and not {*_BOUNDS, "allowed"} & each.decorators.keys():
            yield f"number {each.name} has no bounds"


@of_templates
def bounds_hold_in_modules(template: Template) -> Iterator[str]:
    """Require that a module accepts every value that its caller can pass on (compiler: BCP329-335)."""
    for module, inner in template.calls():
        for name, value in properties_in(module.body):
            given = template.parameters.get(text_of(value))
            if given is not None and within(value, "params") and name in inner.parameters:
                for bound in _wider_bounds(given, inner.parameters[name]):
                    yield f"{module.name} has another {bound} for {name}"


@of_templates
def files_are_short_and_local(template: Template) -> Iterator[str]:
    """Require at most 300 lines, and modules from files: nothing is downloaded from a registry."""
    lines = len(template.path.read_text().splitlines())
    if lines > _MOST_LINES:
        yield f"{lines} lines"
    for source in template.sources():
        if not template.file(source).is_file():
            yield f"{source} is no file here"


@policy
def every_file_is_used(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that every template is used by another; azd uses main.bicep."""
    used = {template.file(source) for template in infrastructure.templates for source in template.sources()}
    used.add(infrastructure.folder / "infra" / "main.bicep")
    for template in infrastructure.templates:
        if template.path not in used:
            yield f"{template.path.name}: nothing uses it"


@of_templates
def every_parameter_is_used(template: Template) -> Iterator[str]:
    """Require that every parameter and variable of a template is used in one of its expressions."""
    identifiers = [text_of(node) for node in walk(template.root) if node.type == "identifier"]
    for name in (template.parameters.keys() | template.variables.keys()) - template.exported:
        if identifiers.count(name) < 2:
            yield f"{name} is not used"


@policy
def each_type_has_one_version(infrastructure: Infrastructure) -> Iterator[str]:
    """Require one API version for each type of resource, also for `existing` ones: it changes everywhere."""
    versions: dict[str, str] = {}
    for template in infrastructure.templates:
        for resource in template.resources.values():
            kind, version = resource.source.split("@")
            if versions.setdefault(kind, version) != version:
                yield f"{template.path.name}: {resource.source} has version {versions[kind]} elsewhere"


@of_templates
def names_are_declared(template: Template) -> Iterator[str]:
    """Require that each name in an expression is declared in the file, imported, or a Bicep function."""
    declared = template.parameters | template.variables | template.functions
    known = {*declared, *template.resources, *template.modules, *template.imports, *_FUNCTIONS}
    values = [each.value for each in (*declared.values(), *template.outputs.values()) if each.value]
    bodies = [each.body for each in (*template.resources.values(), *template.modules.values())]
    for node in (node for root in (*values, *bodies) for node in walk(root)):
        is_value = node.type == "identifier" and _is_value(node)
        if is_value and text_of(node) not in known | _bound_at(node):
            yield f"{text_of(node)} is not declared"


@of_templates
def imported_names_are_exported(template: Template) -> Iterator[str]:
    """Require that every imported name exists, and is marked `@export()`."""
    for name, source in template.imports.items():
        if name not in read_template(template.file(source)).exported:
            yield f"{source} exports no {name}"


@of_templates
def modules_are_called_with_their_parameters(template: Template) -> Iterator[str]:
    """Require all parameters without a default, no unknown parameter, and no read of an unknown output."""
    for module, inner in template.calls():
        given = {name for name, value in properties_in(module.body) if within(value, "params")}
        required = {name for name, declared in inner.parameters.items() if declared.value is None}
        outputs = set(_outputs_read(template, module))
        for name in (required - given) | (given - inner.parameters.keys()) | (outputs - inner.outputs.keys()):
            yield f"{module.name}: {name} is missing or unknown"


def _wider_bounds(given: Declaration, accepted: Declaration) -> Iterator[str]:
    for bound, is_wider in _BOUNDS.items():
        values = [each.decorators.get(bound) for each in (given, accepted)]
        first, second = (int(text_of(value[0])) if value else None for value in values)
        if first is not None and second is not None and is_wider(first, second):
            yield bound


def _is_value(node: Node) -> bool:
    """Return whether an identifier is a value, and neither a property's name nor a declared variable."""
    parent = node.parent
    if parent is None or parent.type not in {"object_property", "member_expression"}:
        return True
    return (named(parent)[0] == node) is (parent.type == "member_expression")


def _bound_at(node: Node) -> set[str]:
    """Return the variables of the loops, lambdas and functions around a node."""
    bound, outer = set[str](), node.parent
    while outer is not None:
        match outer.type:
            case "for_statement":
                bound |= {*names_in([*named(outer)[:-2]])}
            case "lambda_expression":
                bound |= {*names_in([*named(outer)[:-1]])}
            case "user_defined_function":
                bound |= {text_of(named(each)[0]) for each in named(named(outer)[1])}
        outer = outer.parent
    return bound


def _outputs_read(template: Template, module: Resource) -> Iterator[str]:
    for node in walk(template.root):
        if node.type == "member_expression":
            owner, name = named(node)
            if [text_of(each).partition("[")[0] for each in named(owner)] == [module.name, "outputs"]:
                yield text_of(name)
