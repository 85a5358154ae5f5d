"""In which states an order, and its steps, can end when nothing goes wrong but what was drawn for it."""

from __future__ import annotations

from collections.abc import Iterator

from functions.pattern.definition import Default, Step
from functions.pattern.states import Expiry, Remedy, Way
from tests.simulation.drawn.load import DrawnOrder

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
