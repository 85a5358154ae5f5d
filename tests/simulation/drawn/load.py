"""The drawn orders, and the ends that are expected of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from functions.pattern.definition import Default, Step, Workflow
from functions.pattern.states import Expiry, Remedy, Way
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


_AFTER = {Remedy.HOLD: {"Error"}, Remedy.COMPENSATE: {"Compensated"}, Remedy.CONTINUE: set[str]()}


def expected_states(order: DrawnOrder, *, is_cancelled: bool, version: int | None) -> set[str]:
    """Give them; of several refusals any may come first, and what is refused may not be needed.

    Nothing was drawn to befall an order that became a task of another version.
    """
    if is_cancelled:
        return {"Compensated"}
    if version not in {None, order.workflow.version}:
        return {"Processed"}
    certain = [after for step in order.workflow.steps for after in _failing(order, step) if not step.when]
    possible = [after for step in order.workflow.steps for after in _failing(order, step)]
    states = set().union(*possible)
    return states if any(certain) else states | {"Processed"}


def expected_steps(order: DrawnOrder) -> dict[str, str]:
    """Give the states of all steps of an order that is processed."""
    return {
        name: _expected_step(order, step, number)
        for step in order.workflow.steps
        for number, name in _items(order, step)
    }


def _items(order: DrawnOrder, step: Step) -> list[tuple[int, str]]:
    if step.for_each is None:
        return [(0, step.name)]
    return [(number, f"{step.name}.{number}") for number in range(order.payload["items"])]


def _expected_step(order: DrawnOrder, step: Step, item: int) -> str:
    """Give it; what has failed was gone on without."""
    number = int(step.name.rpartition("-")[2]) + item
    if step.when is not None and number in order.payload["skipped"]:
        return "Skipped"
    return "Failed" if [*_failing(order, step)] else "Completed"


def _failing(order: DrawnOrder, step: Step) -> Iterator[set[str]]:
    """Give what follows from a step that fails."""
    remedy = step.on_failure or order.workflow.on_failure
    if step.name == order.refused and (step.for_each is None or order.payload["items"]):
        yield _AFTER[remedy]
    if step.via is Way.EVENT and step.name in order.untold and not isinstance(step.on_expiry, Default):
        yield {"Error"} if step.on_expiry is Expiry.HOLD else _AFTER[remedy]
