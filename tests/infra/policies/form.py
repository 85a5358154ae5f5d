"""The form of the templates: readable, complete, with listed API versions, and without a registry."""

from __future__ import annotations

from collections.abc import Iterator
from operator import gt, lt

from tree_sitter import Node

from tests.infra.bicep.template import (
    Declaration,
    Template,
    decorators_of,
    named,
    read_template,
    text_of,
    walk,
    within,
)
from tests.infra.infrastructure import Infrastructure

_MOST_LINES = 300

#: The API versions that the project was written for; a change must be deliberate.
_VERSIONS = {
    "Microsoft.Authorization/locks": "2020-05-01",
    "Microsoft.Authorization/roleAssignments": "2022-04-01",
    "Microsoft.Consumption/budgets": "2026-06-01",
    "Microsoft.DurableTask": "2026-02-01",
    "Microsoft.EventHub": "2026-01-01",
    "Microsoft.Insights/actionGroups": "2023-01-01",
    "Microsoft.Insights/components": "2020-02-02",
    "Microsoft.Insights/diagnosticSettings": "2021-05-01-preview",
    "Microsoft.Insights/metricAlerts": "2026-01-01",
    "Microsoft.Insights/scheduledQueryRules": "2026-03-01",
    "Microsoft.Insights/workbooks": "2023-06-01",
    "Microsoft.KeyVault": "2026-02-01",
    "Microsoft.ManagedIdentity": "2024-11-30",
    "Microsoft.Network/privateDnsZones": "2024-06-01",
    "Microsoft.Network/privateEndpoints": "2025-09-01",
    "Microsoft.Network/virtualNetworks": "2025-09-01",
    "Microsoft.OperationalInsights": "2026-03-01",
    "Microsoft.Resources/resourceGroups": "2025-04-01",
    "Microsoft.ServiceBus": "2026-01-01",
    "Microsoft.Storage": "2026-04-01",
    "Microsoft.Web": "2025-03-01",
}

_BOUNDS = {"minValue", "maxValue", "minLength", "maxLength", "allowed"}


def everything_is_described(infrastructure: Infrastructure) -> Iterator[str]:
    """Require a description of every parameter, output, and property of a type."""
    for template in infrastructure.templates:
        declared = [*template.parameters.values(), *template.outputs.values()]
        for each in declared:
            if "description" not in each.decorators:
                yield f"{template.path.name}: {each.name} has no @description"
        for name in _type_properties(template):
            yield f"{template.path.name}: {name} of a type has no @description"


def numbers_are_bounded(infrastructure: Infrastructure) -> Iterator[str]:
    """Require bounds for every number that can be set: a mistake is refused before anything is deployed."""
    for template in infrastructure.templates:
        for each in template.parameters.values():
            if text_of(each.type) == "int" and not _BOUNDS & each.decorators.keys():
                yield f"{template.path.name}: number {each.name} has no bounds"


def bounds_hold_in_modules(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that a module accepts every value that its caller can pass on (compiler: BCP329-335)."""
    for template in infrastructure.templates:
        for module in template.modules.values():
            path = (template.path.parent / module.source).resolve()
            inner = read_template(path).parameters if path.is_file() else {}
            for name, given in _passed_on(template, module.body):
                for bound in _outside(given, inner[name]):
                    yield f"{template.path.name}: {module.name} has another {bound} for {name}"


def files_are_short(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that no template is longer than 300 lines, as no other file is."""
    for template in infrastructure.templates:
        lines = len(template.path.read_text().splitlines())
        if lines > _MOST_LINES:
            yield f"{template.path.name}: {lines} lines"


def modules_are_files_here(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that every module is a file here: nothing is downloaded from a registry."""
    for template in infrastructure.templates:
        sources = [module.source for module in template.modules.values()]
        for source in [*sources, *(each.source for each in template.imports)]:
            if not (template.path.parent / source).is_file():
                yield f"{template.path.name}: {source} is no file here"


def every_file_is_used(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that every template is used by another; azd uses main.bicep."""
    used = {infrastructure.folder / "infra" / "main.bicep"}
    for template in infrastructure.templates:
        sources = [module.source for module in template.modules.values()]
        sources += [each.source for each in template.imports]
        used |= {(template.path.parent / source).resolve() for source in sources}
    for template in infrastructure.templates:
        if template.path not in used:
            yield f"{template.path.name}: nothing uses it"


def every_parameter_is_used(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that every parameter and variable of a template is used in one of its expressions."""
    for template in infrastructure.templates:
        identifiers = [text_of(node) for node in walk(template.root) if node.type == "identifier"]
        exported = {each.name for each in template.variables.values() if "export" in each.decorators}
        for name in (template.parameters.keys() | template.variables.keys()) - exported:
            if identifiers.count(name) < 2:
                yield f"{template.path.name}: {name} is not used"


def versions_are_listed(infrastructure: Infrastructure) -> Iterator[str]:
    """Require that every resource, `existing` ones too, has the API version listed for its type."""
    for template in infrastructure.templates:
        for resource in template.resources.values():
            kind, version = resource.source.split("@")
            listed = [known for prefix, known in _VERSIONS.items() if f"{kind}/".startswith(f"{prefix}/")]
            if listed != [version]:
                yield f"{template.path.name}: {resource.source} is not a listed version"


def _passed_on(template: Template, body: Node) -> Iterator[tuple[str, Declaration]]:
    """Return the template's parameters that are passed on unchanged, by their names in the module."""
    for node in walk(body):
        if node.type == "object_property" and (parts := named(node))[1:]:
            given = template.parameters.get(text_of(parts[1]))
            if given is not None and within(node, "params"):
                yield text_of(parts[0]), given


def _outside(given: Declaration, taken: Declaration) -> Iterator[str]:
    for bound, wider in (("minValue", lt), ("minLength", lt), ("maxValue", gt), ("maxLength", gt)):
        if bound in given.decorators and bound in taken.decorators:
            first, second = (int(text_of(each.decorators[bound][0])) for each in (given, taken))
            if wider(first, second):
                yield bound


def _type_properties(template: Template) -> Iterator[str]:
    """Yield the names of types' properties that have no description."""
    for declaration in template.root.children:
        if declaration.type == "type_declaration":
            for node in walk(declaration):
                if node.type == "object_property" and "description" not in decorators_of(node):
                    yield text_of(named(node)[0])
