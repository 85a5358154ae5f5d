"""The workflows that a seed draws, as the simulation draws them, with limits that suit a run of minutes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from random import Random

from functions.pattern.definition import Step, Workflow
from functions.pattern.states import Way
from functions.workflows.registration import Registration
from tests.simulation.drawn.workflows import draw_next, draw_workflows

#: Larger ones are drawn again: each step costs a small machine as much as an order.
MOST_STEPS = 12
#: Seconds that an event, and a task that is a step, is waited for.
WAITS = {Way.EVENT: 12.0, Way.WORKFLOW: 40.0}


def drawn_registrations(seed: int, version: int, limit: float) -> tuple[Registration, ...]:
    """Draw the workflows of a seed; from version 2 on, one of them has two. `limit` is in seconds."""
    drawn = next(_small(seed))
    if version > 1:
        drawn = draw_next(Random(f"{seed}/next"), drawn)  # noqa: S311 - not for security
    return tuple(
        Registration(
            _limited(each.workflow, limit), older=tuple(_limited(older, limit) for older in each.older)
        )
        for each in drawn
    )


def _small(seed: int) -> Iterator[tuple[Registration, ...]]:
    for attempt in count():
        drawn = draw_workflows(Random(f"{seed}/{attempt}/workflows"))  # noqa: S311 - not for security
        if all(len(each.workflow.steps) <= MOST_STEPS for each in drawn):
            yield drawn


def _limited(workflow: Workflow, limit: float) -> Workflow:
    return replace(workflow, steps=tuple(_limited_step(step, limit) for step in workflow.steps))


def _limited_step(step: Step, limit: float) -> Step:
    if step.via is Way.TIMER:
        return step
    return replace(step, complete_within=WAITS.get(step.via, limit))
