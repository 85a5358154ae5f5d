"""A task that is a step of another has an id that is known before it is recorded."""

from __future__ import annotations

import re

from functions.pattern.identity import TASK_ID_PATTERN, Birth, StepName, TaskId, child_id, resource_id


def _child(task: str = "trip-1", birth: str = "3f9a0c27", step: str = "car") -> TaskId:
    return child_id(resource_id(TaskId(task), Birth(birth)), StepName(step))


def test_child_s_id_is_a_task_s_and_the_same_each_time() -> None:
    """Whoever admits the child, in whatever epoch, admits the same."""
    assert _child() == "c-c027f4254ce6fa52b7779b760a184b25d3b791c6"
    assert re.fullmatch(TASK_ID_PATTERN, _child())


def test_each_step_and_item_of_each_task_has_a_child_of_its_own() -> None:
    """An id used again after retention is another task, with other children."""
    others = {_child("trip-2"), _child(birth="00000000"), _child(step="car.0"), _child(step="car.1")}
    assert len(others | {_child()}) == 5
