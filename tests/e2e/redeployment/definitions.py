"""One workflow for each way of changing a definition, and what is deployed of it when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from functions.pattern.definition import Workflow
from functions.workflows.registration import Registration
from tests.fakes import orders
from tests.fakes.redeployments import CHANGES, SHOP

#: The Agents of all steps that there are in any deployment.
AGENTS = ("pick", "label", "send", "check", "mark", "printer")

#: Seconds that a step may take: longer than all tasks need to get under way on a busy machine.
_COMPLETE_WITHIN = 40


class Deployment(StrEnum):
    """What the application is made of."""

    #: Version 1 of each workflow.
    BEFORE = "before"
    #: What the change has made of it.
    CHANGED = "changed"
    #: The change, in a way that has version 1, too.
    RIGHT = "right"


class Treatment(StrEnum):
    """How a change is deployed."""

    #: Under the same version.
    IN_PLACE = "in-place"
    #: As version 2, beside version 1.
    BESIDE = "beside"
    #: As version 2, and version 1 is gone.
    DROPPED = "dropped"


#: What is not missed where other workflows have it: a step more, and the Agent that is no longer asked.
_MISSED_BY_NONE = frozenset({"step inserted", "agent changed"})


@dataclass(frozen=True, slots=True)
class Case:
    """A change in one of its treatments, of a workflow of its own. Without `changed` it is removed."""

    change: str
    treatment: Treatment
    changed: Workflow | None

    @property
    def workflow(self) -> str:
        """Name the workflow."""
        return f"{self.change} {self.treatment}".replace(" ", "-")

    @property
    def before(self) -> Workflow:
        """Give version 1."""
        return self._named(SHOP)

    @property
    def parks(self) -> bool:
        """Tell whether the change takes from some tasks what they need."""
        is_missed = self.change not in _MISSED_BY_NONE
        return self.treatment is Treatment.DROPPED or (self.treatment is Treatment.IN_PLACE and is_missed)

    def versions(self, deployment: Deployment) -> tuple[Workflow, ...]:
        """Give what is deployed of the workflow, the newest first."""
        if deployment is Deployment.BEFORE or (deployment is Deployment.RIGHT and self._is_taken_back):
            return (self.before,)
        if self.changed is None:
            return ()
        changed = self._named(self.changed)
        if self.treatment is Treatment.IN_PLACE:
            return (changed,)
        newer = replace(changed, version=2)
        keeps_old = deployment is Deployment.RIGHT or self.treatment is Treatment.BESIDE
        return (newer, self.before) if keeps_old else (newer,)

    @property
    def _is_taken_back(self) -> bool:
        return self.changed is None or self.treatment is Treatment.IN_PLACE

    def _named(self, of: Workflow) -> Workflow:
        steps = tuple(replace(step, complete_within=_COMPLETE_WITHIN) for step in of.steps)
        return replace(of, name=self.workflow, resource=self.workflow, steps=steps)


CASES = (
    *(Case(change, treatment, changed) for change, changed in CHANGES.items() for treatment in Treatment),
    Case("workflow removed", Treatment.DROPPED, None),
)


def registrations(deployment: Deployment) -> Sequence[Registration]:
    """Give what is deployed, with orders, whose payment all workflows use."""
    deployed = [versions for case in CASES if (versions := case.versions(deployment))]
    return [
        *(Registration(newest, older=tuple(older)) for newest, *older in deployed),
        orders.REGISTRATION,
    ]
