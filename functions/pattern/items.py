"""For-each steps: a task has one step for each item, as many as its order had when it was admitted."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from functions.pattern.identity import StepName, item_name
from functions.pattern.plain_json import plain_json
from functions.pattern.shape import Shape, StepShape
from functions.pattern.texts import mark_of

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


def read_items(given: object) -> tuple[Any, ...]:
    """Read an order's items as its `for_each` gives them, one more than fit at most. Raises `TypeError`."""
    if not isinstance(given, list | tuple):
        raise TypeError(f"for_each must give a list or a tuple, in one order, not {type(given).__name__}")
    return tuple(given[: MOST_STEPS + 1])


def recorded_digest(shape: Shape, digests: tuple[str, ...], step: StepName) -> str:
    """Find the digest of a for-each step's items."""
    names = [each.name for each in shape.steps if each.at_once is not None]
    return dict(zip(names, digests, strict=True))[step]


def items_digest(items: Iterable[Any]) -> str:
    """Tell an order's items from others, and from the same in another order, by what their models were given.

    Raises `ValueError` for what JSON does not have.
    """
    return mark_of(json.dumps(plain_json(list(items), only_set=True), sort_keys=True))
