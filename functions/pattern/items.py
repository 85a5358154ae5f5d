"""For-each steps: a task has one step for each item, as many as its order had when it was admitted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from functions.pattern.identity import StepName, item_name
from functions.pattern.shape import Shape, StepShape

#: Of steps, and of rows by which a task is found. An entity group transaction takes 100 operations. One
#: change writes at most eight more: the task, two of the index, two closed epochs, a notice and two alerts.
MOST_STEPS = 90


def steps_with_items(shape: Shape, items: tuple[int, ...]) -> tuple[StepShape, ...]:
    """Give a task's steps: those of its shape, but one for each item in the place of a for-each step.

    `items` counts them, for each such step in the shape's order. What needs the step needs every item;
    without any, it needs what the step would have needed. Raises `ValueError` when the counts don't fit.
    """
    if not items and all(step.at_once is None for step in shape.steps):
        return shape.steps
    names = _names(shape, items)
    steps = {step.name: step for step in shape.steps}

    @cache
    def waited_for(name: StepName) -> frozenset[StepName]:
        return frozenset(names[name]) or all_of(steps[name].needs)

    def all_of(needs: frozenset[StepName]) -> frozenset[StepName]:
        return frozenset().union(*map(waited_for, needs))

    return tuple(
        replace(step, name=name, needs=needs)
        for step in shape.steps
        for needs in [all_of(step.needs)]
        for name in names[step.name]
    )


def _names(shape: Shape, items: tuple[int, ...]) -> dict[StepName, tuple[StepName, ...]]:
    """Name what stands in the place of each step."""
    steps = [step.name for step in shape.steps if step.at_once is not None]
    counts = dict(zip(steps, items, strict=True))
    return {
        step.name: tuple(item_name(step.name, item) for item in range(counts[step.name]))
        if step.name in counts
        else (step.name,)
        for step in shape.steps
    }
