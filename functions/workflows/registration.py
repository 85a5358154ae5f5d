"""What the application needs of a workflow, and how it is loaded from the workflow's folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec

from functions.agents.catalog import AgentMaker
from functions.pattern.definition import Workflow
from functions.pattern.errors import DefinitionError
from functions.services.service import SampleService

_PACKAGE = "functions.workflows"


@dataclass(frozen=True, slots=True)
class Registration:
    """A workflow with the parts that are its own, and its `older` versions that are still served.

    `agents` makes the Agents that talk to their services in a way of their own; any other Agent that the
    steps name is a REST Agent. `services` are sample services, served only where `SAMPLE_SERVICES` is set.
    Raises `DefinitionError` where one stands in the place of several.
    """

    workflow: Workflow
    agents: Mapping[str, AgentMaker] = field(default_factory=dict)
    services: tuple[SampleService, ...] = ()
    older: tuple[Workflow, ...] = ()

    def __post_init__(self) -> None:
        for name in ("services", "older"):
            if not isinstance(getattr(self, name), tuple | list):
                raise DefinitionError(
                    f"workflow '{self.workflow.name}': {name} of its registration must be a tuple: write"
                    f" {name}=(ONE,), with the comma"
                )

    @property
    def versions(self) -> tuple[Workflow, ...]:
        """Give all versions of the workflow, the one for new submissions first."""
        return (self.workflow, *self.older)


def load_registration(folder: str, package: str = _PACKAGE) -> Registration:
    """Load the workflow in a folder of `package`. Raises `DefinitionError`, which names the fix."""
    name = f"{package}.{folder}"
    place = name.replace(".", "/")
    if find_spec(name) is None:
        raise DefinitionError(
            f"the registry names '{folder}', but there is no {place}/: add it, or remove the line"
        )
    try:
        module = import_module(name)
    except ImportError as error:
        raise DefinitionError(f"{place} cannot be imported: {error}") from None
    registration = getattr(module, "REGISTRATION", None)
    if not isinstance(registration, Registration):
        raise DefinitionError(
            f"{place}/__init__.py has no REGISTRATION: add `REGISTRATION = Registration(WORKFLOW)`"
        )
    return registration


def agent_makers(registrations: Iterable[Registration]) -> dict[str, AgentMaker]:
    """Return the makers of all workflows' own Agents. Raises `DefinitionError` for conflicts."""
    every = tuple(registrations)
    known = set().union(*map(_agents_of, every))
    for each in every:
        for name in each.agents:
            if name not in known:
                raise DefinitionError(
                    f"workflow '{each.workflow.name}': agents names '{name}', which is the agent of no step;"
                    f" the agents are {', '.join(sorted(_agents_of(each)))}"
                )
    return _merged("the Agent", (each.agents for each in every))


def sample_services(registrations: Iterable[Registration]) -> tuple[SampleService, ...]:
    """Give the sample services of all workflows. Raises `DefinitionError` when two share a name."""
    by_name = ({service.name: service for service in each.services} for each in registrations)
    return tuple(_merged("the sample service", by_name).values())


def _agents_of(registration: Registration) -> set[str]:
    steps = (step for version in registration.versions for step in version.steps)
    return {step.agent for step in steps if not step.via.waits}


def _merged[Part](kind: str, parts_of_workflows: Iterable[Mapping[str, Part]]) -> dict[str, Part]:
    merged: dict[str, Part] = {}
    for parts in parts_of_workflows:
        for name, part in parts.items():
            if merged.setdefault(name, part) is not part:
                raise DefinitionError(f"two workflows define {kind} '{name}': give one of them another name")
    return merged
