"""What is known of a step is recorded, whatever the plan of what follows comes to."""

from __future__ import annotations

import pytest

from functions.pattern.definition import Registry
from functions.pattern.states import StepState
from functions.scheduler.progress import RunInput
from functions.scheduler.run_steps import RunSteps
from functions.store.state_store import TableStateStore
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.ports import fake_ports
from tests.fakes.runners import limits
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.written import Process


@pytest.mark.parametrize("idempotent", [True, False])
async def test_outcome_is_recorded_though_the_definition_has_got_a_step(*, idempotent: bool) -> None:
    """A task in flight meets a definition with one step more (before: recorded, then the run failed).

    The Agent is called, and its outcome is thrown away with the plan; every recovery calls it again.
    """
    pay = step("pay", idempotent=idempotent)
    before = workflow(pay, step("send", "pay"), name="shop")
    deployed = workflow(pay, step("send", "pay"), step("thank", "pay"), name="shop")
    process = Process(before)
    rows: object = process.rows
    store = TableStateStore(rows, process.writer, RecordingAnnouncer())  # type: ignore[arg-type]
    agents = {each.agent: process.agents for each in deployed.steps}
    runs = RunSteps(fake_ports(store=store, clock=process.clock), agents, Registry((deployed,), {}), limits())
    await runs.run(RunInput(task=TASK, epoch=1, number=1, share=False))
    assert process.agents.steps[0] == "pay"
    assert process.step("pay").state is StepState.COMPLETED
