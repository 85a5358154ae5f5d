"""What a process remembers of tasks is bounded in bytes: results and events count, not only payloads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.identity import TaskId
from functions.pattern.records import MAX_RESULT_BYTES
from functions.pattern.store_ports import Stored
from functions.store.remembered import RememberedTasks
from tests.fakes.tasks import pending
from tests.fakes.workflows import step, workflow

_MOST_BYTES = 100 * 1024 * 1024


@pytest.mark.parametrize("field", ["result", "received"])
def test_a_crowd_of_wide_tasks_with_large_results_stays_within_bounds(field: str) -> None:
    """1,000 tasks of 90 results of 24 KiB are 2 GiB; the plan of a Function app has 1.5 to 2."""
    result = b"r" * MAX_RESULT_BYTES  # one object here, one for each step in a process
    wide = pending(workflow(*(step(f"s{number:02d}") for number in range(90))))
    large: Any = {field: result}
    steps = tuple(replace(each, **large) for each in wide.steps)
    remembered = RememberedTasks()
    tasks = [TaskId(f"task-{number}") for number in range(1_000)]
    for task in tasks:
        record = replace(wide, steps=steps, task=replace(wide.task, order_id=task))
        remembered.keep(Stored(record, "1"))
    kept = [remembered.find(task) for task in tasks]
    assert sum(90 * MAX_RESULT_BYTES for each in kept if each is not None) <= _MOST_BYTES
