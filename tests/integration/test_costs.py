"""What one order costs: at most five write transactions and six reads, and what makes them up."""

from __future__ import annotations

import pytest

from functions.pattern.definition import Json, Registry
from functions.pattern.ports import AgentCall
from functions.pattern.states import Outcome, ProcessState
from functions.scheduler.claim import Claimer
from functions.submission.intake import Intake
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import make_runner
from tests.fakes.tasks import FIRST
from tests.fakes.workflows import TASK, step, submission, workflow
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process

pytestmark = pytest.mark.process

ONE_STEP = workflow(step("pay"))
REGISTRY = Registry((ONE_STEP,), {})


class Agent:
    """Does what it is asked to do."""

    async def do(self, call: AgentCall) -> Json:  # noqa: ARG002 - an Agent's interface
        """Do it."""
        return {}

    async def undo(self, call: AgentCall) -> None:
        """Undo it."""


async def _submit(process: Process) -> None:
    intake = Intake(
        fake_ports(store=process.store, rejected=RecordedRejections(), clock=process.clock), REGISTRY, (), 30
    )
    await intake.take("m-1", submission(ONE_STEP).model_dump_json().encode(), RecordedSchedulers())


async def _claim(process: Process) -> None:
    claimer = Claimer(fake_ports(store=process.store, clock=process.clock), REGISTRY, 30)
    assert (await claimer.claim(TASK, FIRST)).taken


async def _pay(process: Process) -> None:
    runner = make_runner(process.store, {"pay": Agent()}, REGISTRY, process.clock)
    assert (await runner.run(TASK, FIRST, ONE_STEP.steps[0].name)).outcome is Outcome.COMPLETED


async def test_order_in_one_process_costs_four_writes_and_no_read(process: Process) -> None:
    """Submission, claim, start and outcome; the process has what it wrote in its cache."""
    await _submit(process)
    await _claim(process)
    await _pay(process)
    assert (process.figures.transactions, process.figures.reads) == (4, 0)
    assert (await process.read(TASK)).record.task.process_state is ProcessState.PROCESSED


async def test_order_that_changes_processes_stays_within_its_bound(make_process: MakeProcess) -> None:
    """Each activity runs on another machine, and reads the task once."""
    processes = [make_process() for _ in range(3)]
    for act, process in zip((_submit, _claim, _pay), processes, strict=True):
        await act(process)
    assert sum(each.figures.transactions for each in processes) <= 5
    assert sum(each.figures.reads for each in processes) <= 6
    assert [each.figures.reads for each in processes] == [0, 1, 1]
