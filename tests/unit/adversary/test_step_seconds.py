"""`STEP_SECONDS` is "nothing" to tasks in flight, as docs/changing-a-workflow.md says: no change of a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from functions.pattern.definition import Registry
from functions.pattern.identity import StepName
from functions.pattern.states import ProcessState
from functions.scheduler.progress import RunInput
from tests.fakes.agents import ScriptedAgent
from tests.fakes.clock import FakeClock
from tests.fakes.runners import make_runs
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import pending
from tests.fakes.workflows import TASK, step, workflow


def _defect(_payload: Any, _results: Mapping[StepName, Any]) -> dict[str, Any]:
    raise ZeroDivisionError("a defect of the definition's own")


async def test_defect_holds_the_task_although_a_limit_was_set_meanwhile() -> None:
    """Nobody changed the version in place: the defect is its own, and waiting for a deployment mends nothing."""
    flow = workflow(replace(step("pay"), request=_defect), name="shop", resource="shops")
    clock = FakeClock()
    store = MemoryStateStore(clock)
    store.put(pending(flow))
    deployed = Registry((flow,), {"shop.pay": 20.0})  # the setting, which was changed since it was submitted
    await make_runs(store, {"pay": ScriptedAgent()}, deployed, clock).run(
        RunInput(task=TASK, epoch=1, number=1, share=False)
    )
    task = store.record(TASK).task
    assert not task.is_parked, task.last_error
    assert task.process_state is ProcessState.ERROR
