"""The runner does for every Agent what the pattern asks: check, record, call, record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from functions.pattern.definition import Json, Registry
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.identity import StepName, TaskId
from functions.pattern.ports import AgentCall
from functions.pattern.records import StepRecord
from functions.pattern.states import Outcome, ProcessState, StepState
from functions.scheduler.outcomes import StepReport
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import recovered
from tests.fakes.runners import make_runner
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import DIAMOND, LINE, TASK

PICK, SEND = StepName("pick"), StepName("send")


class ScriptedAgent:
    """Keeps its calls, and does with each what the test says."""

    def __init__(self) -> None:
        self.calls: list[AgentCall] = []
        self.behaviour: Callable[[], Json] = lambda: {"done": True}

    async def do(self, call: AgentCall) -> Json:
        """Give the result, or raise."""
        self.calls.append(call)
        return self.behaviour()

    async def undo(self, call: AgentCall) -> None:
        """Undo it, or raise."""
        self.calls.append(call)
        self.behaviour()


class Bench:
    """A runner with all that it works on."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.agent = ScriptedAgent()
        self.runner = make_runner(
            self.store,
            dict.fromkeys(("pick", "send", "open", "left", "right", "close"), self.agent),
            Registry((LINE, DIAMOND), {}),
            self.clock,
        )
        self.store.put(told(pending(LINE), claimed()))

    def step(self, name: StepName = PICK) -> StepRecord:
        """Look at a step as it is recorded."""
        return self.store.record(TASK).step(name)


def _raising(error: Exception) -> Callable[[], Json]:
    def behave() -> Json:
        raise error

    return behave


@pytest.fixture
def bench() -> Bench:
    """Make a bench on which the first Scheduler holds a task of two steps."""
    return Bench()


async def test_step_is_done_and_its_result_recorded(bench: Bench) -> None:
    """The report names what can start now."""
    bench.agent.behaviour = lambda: {"bin": "Ä7"}
    report = await bench.runner.run(TASK, FIRST, PICK)
    assert report == StepReport(Outcome.COMPLETED, (SEND,))
    assert bench.step().state is StepState.COMPLETED
    assert bench.step().result == '{"bin":"Ä7"}'.encode()


async def test_start_is_recorded_before_the_service_is_called(bench: Bench) -> None:
    """Record, then send: a crash during the call is found by its complete-by."""
    seen: list[StepRecord] = []

    def look() -> Json:
        seen.append(bench.step())
        return {}

    bench.agent.behaviour = look
    await bench.runner.run(TASK, FIRST, PICK)
    assert [(step.state, step.complete_by, step.epoch) for step in seen] == [
        (StepState.RUNNING, after(10), FIRST)
    ]


async def test_agent_gets_request_key_and_deadline(bench: Bench) -> None:
    """The request is made of the payload and of the results before it."""
    await bench.runner.run(TASK, FIRST, PICK)
    bench.clock.advance(5)
    await bench.runner.run(TASK, FIRST, SEND)
    assert bench.agent.calls[1] == AgentCall(
        task=TASK,
        effect_key=bench.agent.calls[1].effect_key,
        request={"weight": 3, "after": ["pick"]},
        complete_by=after(15),
    )
    assert [call.effect_key for call in bench.agent.calls] == ["task-1/pick/do", "task-1/send/do"]


async def test_last_step_makes_the_task_processed(bench: Bench) -> None:
    """Nothing is ready after it."""
    await bench.runner.run(TASK, FIRST, PICK)
    assert await bench.runner.run(TASK, FIRST, SEND) == StepReport(Outcome.COMPLETED)
    assert bench.store.record(TASK).task.process_state is ProcessState.PROCESSED


async def test_refusal_makes_the_task_an_error_with_the_reason(bench: Bench) -> None:
    """The reason is the service's."""
    bench.agent.behaviour = _raising(PermanentError("pick answered 400"))
    assert await bench.runner.run(TASK, FIRST, PICK) == StepReport(Outcome.FAILED)
    assert bench.store.record(TASK).task.process_state is ProcessState.ERROR
    assert bench.store.record(TASK).task.last_error == "pick: pick answered 400"
    assert bench.step().state is StepState.FAILED


async def test_unknown_outcome_is_not_recorded(bench: Bench) -> None:
    """The step stays `Running` with its complete-by: the Supervisor finds it."""
    bench.agent.behaviour = _raising(TransientError("no answer"))
    assert await bench.runner.run(TASK, FIRST, PICK) == StepReport(Outcome.EXPIRED)
    assert (bench.step().state, bench.store.record(TASK).task.due_at) == (StepState.RUNNING, after(10))


@pytest.mark.parametrize("error", [None, PermanentError("no")], ids=["success", "refusal"])
async def test_late_outcome_changes_nothing(bench: Bench, error: Exception | None) -> None:
    """Neither a success nor a refusal counts after complete-by."""

    def be_late() -> Json:
        bench.clock.advance(10.1)
        if error is not None:
            raise error
        return {}

    bench.agent.behaviour = be_late
    assert await bench.runner.run(TASK, FIRST, PICK) == StepReport(Outcome.STALE)
    assert bench.step().state is StepState.RUNNING


async def test_older_epoch_does_not_call_the_service(bench: Bench) -> None:
    """The task was recovered before the activity began."""
    bench.store.put(told(recovered(bench.store.record(TASK)), claimed(SECOND)))
    assert await bench.runner.run(TASK, FIRST, PICK) == StepReport(Outcome.STALE)
    assert bench.agent.calls == []


async def test_outcome_of_an_older_epoch_changes_nothing(bench: Bench) -> None:
    """The task was recovered while the service was working."""

    def recover() -> Json:
        bench.store.put(told(recovered(bench.store.record(TASK)), claimed(SECOND)))
        return {"from": "the past"}

    bench.agent.behaviour = recover
    assert await bench.runner.run(TASK, FIRST, PICK) == StepReport(Outcome.STALE)
    assert bench.step().result is None


async def test_completed_step_is_told_again_without_a_call(bench: Bench) -> None:
    """The activity runs a second time when its answer was lost; what is ready is reported again."""
    first = await bench.runner.run(TASK, FIRST, PICK)
    assert await bench.runner.run(TASK, FIRST, PICK) == first
    assert len(bench.agent.calls) == 1


async def test_activity_that_runs_twice_keeps_the_first_deadline(bench: Bench) -> None:
    """A crash between start and outcome: the service is called again, in the same time."""
    bench.store.put(told(bench.store.record(TASK), started("pick", complete_by=7)))
    bench.clock.advance(3)
    await bench.runner.run(TASK, FIRST, PICK)
    assert bench.agent.calls[0].complete_by == after(7)


async def test_parallel_steps_make_the_last_step_ready_once(bench: Bench) -> None:
    """Whoever finishes second sees both results."""
    bench.store.put(told(pending(), claimed(), started("open"), completed("open")))
    first = await bench.runner.run(TASK, FIRST, StepName("right"))
    second = await bench.runner.run(TASK, FIRST, StepName("left"))
    assert (first.ready, second.ready) == (("left",), ("close",))


async def test_unknown_task_is_stale(bench: Bench) -> None:
    """There is nothing to run."""
    assert await bench.runner.run(TaskId("other"), FIRST, PICK) == StepReport(Outcome.STALE)


async def test_task_of_a_workflow_that_is_not_registered_is_an_error(bench: Bench) -> None:
    """A deployment lost a workflow; the error names it."""
    record = bench.store.record(TASK)
    bench.store.put(replace(record, order=replace(record.order, workflow="gone")))
    with pytest.raises(LookupError, match="task task-1: its workflow 'gone' is not registered"):
        await bench.runner.run(TASK, FIRST, PICK)
