"""Plans the deployment of a template: every resource of the template and its modules, with its values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tree_sitter import Node

from tests.infra.bicep.expressions import BUILTINS, Names, evaluate, expand, inside, loop
from tests.infra.bicep.template import Declaration, Resource, named, read_template, text_of
from tests.infra.bicep.values import Function, Unresolved, Value, at, owner_of, properties_of


@dataclass(frozen=True, slots=True)
class Planned:
    """A resource that would be deployed. `body` has its properties."""

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
            "loadJsonContent": lambda file: json.loads(self.template.file(file).read_text()),
            "loadTextContent": lambda file: self.template.file(file).read_text(),
            **BUILTINS,
            **{name: self._function(declared) for name, declared in self.template.functions.items()},
            **parameters,
        }

    @cached_property
    def resources(self) -> tuple[Planned, ...]:
        """Return every resource that is deployed."""
        return tuple(self.planned())

    def planned(self, *, existing: bool = False) -> Iterator[Planned]:
        """Yield every resource that is deployed, or else is referred to, those of modules included."""
        for deployment in self.deployments():
            for resource in deployment.template.resources.values():
                if resource.existing is existing:
                    yield from deployment._resources(resource)

    def deployments(self) -> Iterator[Deployment]:
        """Yield this deployment, and that of every module below it."""
        yield self
        for module in self.template.modules.values():
            for deployment in self._deployed(module):
                yield from deployment.deployments()

    def outputs(self) -> dict[str, Value]:
        """Evaluate the outputs."""
        declared = self.template.outputs.values()
        return {each.name: evaluate(each.value, self.value_of) for each in declared if each.value is not None}

    def value_of(self, name: str) -> Value:
        """Return the value of a parameter, variable, function, import, resource or module."""
        if name not in self._values:
            self._values[name] = self._evaluate(name)
        return self._values[name]

    def _evaluate(self, name: str) -> Value:
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
            is_loop = template.modules[name].body.type == "for_statement"
            return deployed if is_loop else next(iter(deployed), None)
        if name in template.imports:
            return Deployment(template.file(template.imports[name]), {}).value_of(name)
        return Unresolved(name)

    def _function(self, declared: Declaration) -> Function:
        names = [text_of(named(each)[0]) for each in named(declared.type)] if declared.type else []

        def called(*arguments: Value) -> Value:
            own = dict(zip(names, arguments, strict=True))
            return evaluate(declared.value, inside(own, self.value_of)) if declared.value else None

        return called

    def _resources(self, resource: Resource) -> Iterator[Planned]:
        kind, api_version = resource.source.split("@")
        for each in expand(resource.body, self.value_of):
            body = properties_of(evaluate(*each))
            yield Planned(self.template.path, resource.name, kind, api_version, body)

    def _resource_value(self, resource: Resource) -> Value:
        kind, is_loop = resource.source.split("@")[0], resource.body.type == "for_statement"
        items = loop(resource.body, self.value_of) if is_loop else [(resource.body, self.value_of)]
        values: list[Value] = []
        for index, item in enumerate(items):
            text = f"{resource.name}[{index}]" if is_loop else resource.name
            deployed = [Unresolved(text, kind, owner=_path_of(*body)) for body in expand(*item)]
            values.append(next(iter(deployed), None))
        return values if is_loop else values[0]

    def _deployed(self, module: Resource) -> list[Deployment]:
        if module.name not in self._modules:
            bodies = [evaluate(*each) for each in expand(module.body, self.value_of)]
            path = self.template.file(module.source)
            self._modules[module.name] = [
                Deployment(path, properties_of(at(body, "params"))) for body in bodies
            ]
        return self._modules[module.name]


def _path_of(body: Node, names: Names) -> str:
    """Return the names of a resource's parents and its own; other properties can refer to the resource."""
    properties = [named(each) for each in named(body) if each.type == "object_property"]
    values = {text_of(key): value for key, value in properties if text_of(key) in {"parent", "name"}}
    return "/".join(owner_of(evaluate(values[key], names)) for key in ("parent", "name") if key in values)
