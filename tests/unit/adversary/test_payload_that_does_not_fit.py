"""A recorded payload that the deployed model does not take any more parks the task, whatever the model raises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import pytest
from pydantic import BaseModel, model_validator

from functions.pattern.definition import Registry
from functions.pattern.parking import as_parked
from functions.pattern.readiness import what_is_missing
from functions.pattern.states import ProcessState
from functions.scheduler.progress import RunInput
from tests.fakes.agents import ScriptedAgent
from tests.fakes.clock import FakeClock
from tests.fakes.runners import make_runs
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import claimed, completed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow

FLOW = workflow(step("pick"), name="shop", resource="shops")


class Divides(BaseModel):
    """A model of a deployment that forgot that a weight can be 3."""

    weight: int

    @model_validator(mode="after")
    def _check(self) -> Self:
        if 10 // (self.weight - 3) > 4:
            raise ValueError("too light")
        return self


class LooksUp(BaseModel):
    """A model that reads what older payloads do not have."""

    weight: int
    price: int

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        return given | {"price": int(given["price"]["amount"])}


@pytest.mark.parametrize("payload", [Divides, LooksUp])
async def test_payload_that_no_longer_validates_parks(payload: type[BaseModel]) -> None:
    """Issue 2: it is the deployment that lacks something; the task is nobody's to mend."""
    clock = FakeClock()
    store = MemoryStateStore(clock)
    store.put(pending(FLOW))
    deployed = Registry((replace(FLOW, payload=payload),), {})
    await make_runs(store, {"pick": ScriptedAgent()}, deployed, clock).run(
        RunInput(task=TASK, epoch=1, number=1, share=False)
    )
    task = store.record(TASK).task
    assert (task.process_state, task.is_parked) == (ProcessState.PENDING, True), task.last_error
    assert what_is_missing(deployed, store.record(TASK)) is not None


def test_supervisor_can_tell_why_a_task_that_lacks_only_its_answer_waits() -> None:
    """It raises in every sweep instead: the task is neither released nor told about, and `done` answers 500."""
    done_all = told(pending(FLOW), claimed(), started("pick"), completed("pick"))
    waiting = as_parked(done_all, "version 1 of 'shop' is not deployed here", done_all.task.updated_at)
    deployed = Registry((replace(FLOW, payload=Divides, answer=lambda *_: {}),), {})
    what_is_missing(deployed, waiting)
