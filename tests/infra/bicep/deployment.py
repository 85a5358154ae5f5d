"""Plans what a template deploys: every resource of it and of its modules, with the values that they get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.infra.bicep.expressions import Within, evaluate, expand
from tests.infra.bicep.template import Declaration, Resource, Template, named, read_template, text_of
from tests.infra.bicep.values import Unresolved, Value, at, properties_of


@dataclass(frozen=True, slots=True)
class Planned:
    """A resource that would be deployed. `body` is all that stands in its braces."""

    template: Path
    symbol: str
    type: str
    api_version: str
    body: dict[str, Value]

    @property
    def title(self) -> str:
        """Name the resource for whoever reads a complaint."""
        return f"{self.template.stem}: {self.symbol}"

    def at(self, *path: str) -> Value:
        """Give a property of it, by its path."""
        return at(self.body, *path)


class Library:
    """Reads each file once."""

    def __init__(self) -> None:
        self._read: dict[Path, Template] = {}

    def template(self, path: Path) -> Template:
        """Give the parsed file."""
        if path not in self._read:
            self._read[path] = read_template(path)
        return self._read[path]


class Deployment:
    """A template with its parameters; names in its expressions are looked up here."""

    def __init__(self, path: Path, parameters: Mapping[str, Value], library: Library) -> None:
        self.template = library.template(path)
        self._parameters = parameters
        self._library = library
        self._modules: dict[str, list[Deployment]] = {}
        self._values: dict[str, Value] = {}

    @property
    def folder(self) -> Path:
        """Give the folder that paths in the template start from."""
        return self.template.path.parent

    def planned(self) -> Iterator[Planned]:
        """Give every resource that is deployed, those of modules too. Raises `UnreadableError`."""
        for resource in self.template.resources.values():
            if not resource.existing:
                yield from self._resources(resource)
        for module in self.template.modules.values():
            for deployment in self._deployed(module):
                yield from deployment.planned()

    def deployments(self) -> Iterator[Deployment]:
        """Give this one, and that of every module below it."""
        yield self
        for module in self.template.modules.values():
            for deployment in self._deployed(module):
                yield from deployment.deployments()

    def outputs(self) -> dict[str, Value]:
        """Evaluate the outputs."""
        declared = self.template.outputs.values()
        return {each.name: evaluate(each.value, self) for each in declared if each.value is not None}

    def value_of(self, name: str) -> Value:
        """Give the value of a parameter, variable, import, resource or module."""
        if name not in self._values:
            self._values[name] = self._looked_up(name)
        return self._values[name]

    def called(self, name: str, arguments: list[Value]) -> Value | None:
        """Evaluate a function that the template, or one that it imports from, defines."""
        declared = self.template.functions.get(name)
        if declared is None:
            elsewhere = self._imported(name)
            return None if elsewhere is None else elsewhere.called(name, arguments)
        if declared.type is None or declared.value is None:
            return None
        names = [text_of(named(each)[0]) for each in named(declared.type)]
        return evaluate(declared.value, Within(dict(zip(names, arguments, strict=True)), self))

    def _looked_up(self, name: str) -> Value:
        template = self.template
        if name in template.parameters:
            return self._parameter(template.parameters[name])
        if name in template.variables:
            return self._own(template.variables[name])
        if name in template.resources:
            return self._resource_value(template.resources[name])
        if name in template.modules:
            return self._module_value(template.modules[name])
        elsewhere = self._imported(name)
        return Unresolved(name) if elsewhere is None else elsewhere.value_of(name)

    def _resources(self, resource: Resource) -> Iterator[Planned]:
        kind, api_version = resource.source.split("@")
        for body, names in expand(resource.body, self):
            properties = properties_of(evaluate(body, names))
            yield Planned(self.template.path, resource.name, kind, api_version, properties)

    def _deployed(self, module: Resource) -> list[Deployment]:
        if module.name not in self._modules:
            path = (self.folder / module.source).resolve()
            bodies = [evaluate(body, names) for body, names in expand(module.body, self)]
            self._modules[module.name] = [
                Deployment(path, properties_of(at(body, "params")), self._library) for body in bodies
            ]
        return self._modules[module.name]

    def _module_value(self, module: Resource) -> Value:
        deployed = self._deployed(module)
        return {"outputs": dict(deployed[0].outputs())} if deployed else None

    def _resource_value(self, resource: Resource) -> Value:
        if resource.body.type == "if_statement" and not any(expand(resource.body, self)):
            return None
        return Unresolved(resource.name, resource.source.split("@")[0])

    def _parameter(self, declared: Declaration) -> Value:
        if declared.name in self._parameters:
            return self._parameters[declared.name]
        if declared.value is not None:
            return evaluate(declared.value, self)
        return Unresolved(declared.name)

    def _own(self, declared: Declaration) -> Value:
        return None if declared.value is None else evaluate(declared.value, self)

    def _imported(self, name: str) -> Deployment | None:
        for each in self.template.imports:
            if name in each.names:
                return Deployment((self.folder / each.source).resolve(), {}, self._library)
        return None
