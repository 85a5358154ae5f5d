"""Plans what a template deploys: every resource of the template and its modules, with its values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Node

from tests.infra.bicep.builtins import BUILTINS
from tests.infra.bicep.expressions import Names, evaluate, expand, inside
from tests.infra.bicep.template import Declaration, Resource, named, read_template, text_of
from tests.infra.bicep.values import Function, Unresolved, Value, at, properties_of, shown


@dataclass(frozen=True, slots=True)
class Planned:
    """A resource that would be deployed. `body` holds its properties."""

    template: Path
    symbol: str
    type: str
    api_version: str
    body: dict[str, Value]

    @property
    def title(self) -> str:
        """Name the resource, for messages."""
        return f"{self.template.stem}: {self.symbol}"

    def at(self, *path: str) -> Value:
        """Return a property of the resource, by its path."""
        return at(self.body, *path)


class Deployment:
    """A template with its parameters. Its methods raise `UnreadableError`."""

    def __init__(self, path: Path, parameters: Mapping[str, Value]) -> None:
        self.template = read_template(path)
        self._modules: dict[str, list[Deployment]] = {}
        self._values: dict[str, Value] = {
            "loadJsonContent": lambda file: json.loads(self._beside(file).read_text()),
            "loadTextContent": lambda file: self._beside(file).read_text(),
            **BUILTINS,
            **{name: self._function(declared) for name, declared in self.template.functions.items()},
            **parameters,
        }

    def planned(self, *, existing: bool = False) -> Iterator[Planned]:
        """Yield every resource that is deployed, or else is referred to, those of modules included."""
        for resource in self.template.resources.values():
            if resource.existing is existing:
                yield from self._resources(resource)
        for deployment in self._inner():
            yield from deployment.planned(existing=existing)

    def deployments(self) -> Iterator[Deployment]:
        """Yield this deployment, and that of every module below it."""
        yield self
        for deployment in self._inner():
            yield from deployment.deployments()

    def outputs(self) -> dict[str, Value]:
        """Evaluate the outputs."""
        declared = self.template.outputs.values()
        return {each.name: evaluate(each.value, self.value_of) for each in declared if each.value is not None}

    def value_of(self, name: str) -> Value:
        """Return the value of a parameter, variable, function, import, resource or module."""
        if name not in self._values:
            self._values[name] = self._looked_up(name)
        return self._values[name]

    def _looked_up(self, name: str) -> Value:
        template = self.template
        declared = template.parameters.get(name) or template.variables.get(name)
        if declared is not None and declared.value is not None:
            return evaluate(declared.value, self.value_of)
        if name in template.resources:
            return self._resource_value(template.resources[name])
        if name in template.modules:
            deployed: list[Value] = [
                {"outputs": each.outputs()} for each in self._deployed(template.modules[name])
            ]
            if template.modules[name].body.type == "for_statement":
                return deployed
            return deployed[0] if deployed else None
        sources = [each.source for each in template.imports if name in each.names]
        return Deployment(self._beside(sources[0]), {}).value_of(name) if sources else Unresolved(name)

    def _beside(self, path: str) -> Path:
        return (self.template.path.parent / path).resolve()

    def _function(self, declared: Declaration) -> Function:
        names = [text_of(named(each)[0]) for each in named(declared.type)] if declared.type else []

        def called(*arguments: Value) -> Value:
            own = dict(zip(names, arguments, strict=True))
            return evaluate(declared.value, inside(own, self.value_of)) if declared.value else None

        return called

    def _resources(self, resource: Resource) -> Iterator[Planned]:
        kind, api_version = resource.source.split("@")
        for each in expand(resource.body, self.value_of):
            yield Planned(
                self.template.path, resource.name, kind, api_version, properties_of(evaluate(*each))
            )

    def _resource_value(self, resource: Resource) -> Value:
        kind = resource.source.split("@")[0]
        if resource.body.type == "for_statement":
            return Unresolved(resource.name, kind)
        body = next(expand(resource.body, self.value_of), None)
        return None if body is None else Unresolved(resource.name, kind, owner=_name_in(*body))

    def _inner(self) -> Iterator[Deployment]:
        for module in self.template.modules.values():
            yield from self._deployed(module)

    def _deployed(self, module: Resource) -> list[Deployment]:
        if module.name not in self._modules:
            bodies = [evaluate(*each) for each in expand(module.body, self.value_of)]
            self._modules[module.name] = [
                Deployment(self._beside(module.source), properties_of(at(body, "params"))) for body in bodies
            ]
        return self._modules[module.name]


def _name_in(body: Node, names: Names) -> str | None:
    """Evaluate a resource's name, and nothing else: other properties may lead back to the resource."""
    for key, value in (named(each) for each in named(body) if each.type == "object_property"):
        if text_of(key) == "name":
            return shown(evaluate(value, names))
    return None
