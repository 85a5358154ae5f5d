"""Finds workflows, with the limits that this deployment sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from functions.pattern.definition import Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.states import Way


class Registry:
    """Finds workflows by name.

    `step_seconds` overrides the complete-by limits of single steps, named `workflow.step`. Raises
    `DefinitionError` when it names a step that there is not, or when two workflows share a name.
    """

    def __init__(self, workflows: tuple[Workflow, ...], step_seconds: Mapping[str, float]) -> None:
        self._workflows = {each.name: _limited(each, step_seconds) for each in workflows}
        if len(self._workflows) < len(workflows) or len({each.resource for each in workflows}) < len(
            workflows
        ):
            raise DefinitionError("two workflows have the same name or resource")
        known = {f"{each.name}.{step.name}" for each in workflows for step in each.steps}
        for unknown in sorted(step_seconds.keys() - known):
            raise DefinitionError(f"STEP_SECONDS names '{unknown}'; the steps are {', '.join(sorted(known))}")

    def __iter__(self) -> Iterator[Workflow]:
        return iter(self._workflows.values())

    @property
    def queued_agents(self) -> frozenset[str]:
        """Name the Agents that are reached over queues."""
        steps = (step for workflow in self for step in workflow.steps)
        return frozenset(step.agent for step in steps if step.via is Way.QUEUE)

    def find(self, name: str) -> Workflow | None:
        """Give the workflow of that name, or None."""
        return self._workflows.get(name)


def _limited(workflow: Workflow, step_seconds: Mapping[str, float]) -> Workflow:
    steps = tuple(
        replace(step, complete_within=step_seconds.get(f"{workflow.name}.{step.name}", step.complete_within))
        for step in workflow.steps
    )
    return replace(workflow, steps=steps)
