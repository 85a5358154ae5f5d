"""The definition that a task has: of its own workflow, in the version of its order's row."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from functions.pattern.definition import Workflow
from functions.workflows.registration import Registration
from tests.chaos.app.deployment import ORDERS, orders_of
from tests.chaos.evidence.rows import TaskRows
from tests.simulation.checks.definitions import StepsByName

#: No step that is needed, or missing, depends on its limit.
_ANY_LIMIT = 1.0


class TaskDefinitions:
    """The workflows of a run. Of the product's orders, any number of versions may be deployed in it."""

    def __init__(self, registrations: Iterable[Registration]) -> None:
        versions = (version for each in registrations for version in each.versions)
        self._known = {(each.name, each.version): each for each in versions if each.name != ORDERS.name}

    def of(self, rows: TaskRows) -> Workflow | None:
        """Find the definition of a task; None where its order's row does not name it."""
        if rows.workflow == ORDERS.name and rows.version:
            return _orders(rows.version)
        return self._known.get((rows.workflow or "", rows.version or 0))

    def steps_of(self, rows: TaskRows) -> StepsByName | None:
        """Find the steps of a task's own version."""
        workflow = self.of(rows)
        return None if workflow is None else _by_name(workflow)

    def missing(self, rows: TaskRows) -> frozenset[str]:
        """Name the steps that a task should have and has not, but for items: its order says how many."""
        workflow = self.of(rows)
        expected = () if workflow is None else (step for step in workflow.steps if step.for_each is None)
        return frozenset(step.name for step in expected) - {step.name for step in rows.steps}


@cache  # the observer asks for each task at each look
def _orders(version: int) -> Workflow:
    return orders_of(version, _ANY_LIMIT)


@cache
def _by_name(workflow: Workflow) -> StepsByName:
    return StepsByName([Registration(workflow)])
