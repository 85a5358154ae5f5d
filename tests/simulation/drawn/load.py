"""Draws orders: how many, when, and what befalls each of them by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from functions.pattern.definition import Workflow
from functions.pattern.states import Way
from functions.workflows.registration import Registration
from tests.simulation.drawn.workflows import CHILD

#: The order to which nothing is drawn to happen: most seeds have to complete it as if nothing were wrong.
#: It comes (in seconds) after the last fault that any seed draws.
PLAIN, _PLAIN_AT = "plain", 310.0
#: Orders of a run, with their weights: from one to a crowd; and seconds in which they come.
_ORDERS = ((1, 2, 4, 8, 16, 40), (3, 4, 5, 4, 2, 1))
_WITHIN = (1, 30, 120)


@dataclass(frozen=True, slots=True)
class DrawnOrder:
    """One order. `refused` is a step whose service refuses it; an `untold` event never comes.

    `cancelled` is when its caller cancels it, in seconds after its submission. Times are virtual.
    """

    id: str
    workflow: Workflow
    payload: Mapping[str, Any]
    at: float
    refused: str | None = None
    untold: frozenset[str] = frozenset()
    cancelled: float | None = None

    @property
    def body(self) -> dict[str, Any]:
        """Give the submission."""
        return {**self.payload, "reply_to": "notices-demo", "correlation_id": f"for-{self.id}"}


def draw_orders(chance: Random, registrations: Sequence[Registration]) -> tuple[DrawnOrder, ...]:
    """Draw the orders of one run: fewer where a workflow is wide, to bound the run's cost."""
    workflows = [each.workflow for each in registrations if each.workflow.name != CHILD]
    count, within = chance.choices(*_ORDERS)[0], chance.choice(_WITHIN)
    widest = max(len(each.steps) for each in workflows)
    count = max(1, min(count, 60 // widest))
    drawn = tuple(
        _order(chance, f"t{number}", chance.choice(workflows), chance.uniform(0, within))
        for number in range(count)
    )
    [child] = [each.workflow for each in registrations if each.workflow.name == CHILD]
    ordered = _order(chance, PLAIN, child, _PLAIN_AT)
    return (*drawn, replace(ordered, refused=None, cancelled=None))


def _order(chance: Random, order: str, workflow: Workflow, at: float) -> DrawnOrder:
    size = len(workflow.steps)
    payload = {
        "skipped": [number for number in range(size + 4) if chance.random() < 0.5],
        "items": chance.choice((0, 1, 3, 5)) if size < 20 else 1,
        "at": int(at) + chance.choice((0, 20, 100)),
    }
    called = [each.name for each in workflow.steps if not each.via.waits]
    events = [each.name for each in workflow.steps if each.via is Way.EVENT]
    return DrawnOrder(
        id=order,
        workflow=workflow,
        payload=payload,
        at=at,
        refused=chance.choice(called) if called and chance.random() < 0.2 else None,
        untold=frozenset(each for each in events if chance.random() < 0.25),
        cancelled=chance.choice((0.5, 3.0, 20.0, 100.0)) if chance.random() < 0.12 else None,
    )
