"""Steps whose Agent is behind a queue, and steps with a condition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.definition import Registry, Workflow
from functions.pattern.identity import StepName
from functions.pattern.messages import AgentRequest
from functions.pattern.states import Direction, Outcome, ProcessState, StepState, Way
from functions.scheduler.outcomes import StepReport
from functions.scheduler.step_runner import StepRunner
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import done, recovered
from tests.fakes.runners import RecordedRequests, make_runner
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.test_step_runner import ScriptedAgent

PICK, SEND = StepName("pick"), StepName("send")
QUEUED = workflow(step("pick", undo=True, via=Way.QUEUE), step("send", "pick", via=Way.QUEUE), name="queued")


class Bench:
    """A runner, and all that it works on."""

    def __init__(self, of: Workflow = QUEUED) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.requests = RecordedRequests()
        self.agent = ScriptedAgent()
        self.runner: StepRunner = make_runner(
            self.store,
            dict.fromkeys((each.agent for each in of.steps), self.agent),
            Registry((of,), {}),
            self.clock,
            self.requests,
        )
        self.store.put(told(pending(of), claimed()))


async def test_request_carries_what_an_agent_needs_and_is_waited_for() -> None:
    """The step is recorded as running before the request leaves, with the same token."""
    bench = Bench()
    assert await bench.runner.run(TASK, FIRST, PICK) == StepReport(Outcome.REQUESTED, complete_by=after(10))
    record = bench.store.record(TASK).step(PICK)
    assert (record.state, record.token) == (StepState.RUNNING, "token-0000000001")
    expected = AgentRequest(
        task_id=TASK,
        step=PICK,
        epoch=FIRST,
        token="token-0000000001",
        direction=Direction.DO,
        effect_key="task-1/pick/do",
        complete_by=after(10),
        request={"weight": 3, "after": []},
    )
    assert bench.requests.sent == [("pick", expected)]
    assert bench.agent.calls == []


async def test_activity_that_runs_again_sends_the_same_request() -> None:
    """Its first run may have died before it sent; the effect key keeps the effect single."""
    bench = Bench()
    first = await bench.runner.run(TASK, FIRST, PICK)
    bench.clock.advance(3)
    assert await bench.runner.run(TASK, FIRST, PICK) == first
    assert bench.requests.sent[0] == bench.requests.sent[1]


async def test_next_epoch_has_its_own_token() -> None:
    """A reply to the old request can't answer the new one."""
    bench = Bench()
    await bench.runner.run(TASK, FIRST, PICK)
    bench.store.put(told(recovered(bench.store.record(TASK)), claimed(SECOND)))
    await bench.runner.run(TASK, SECOND, PICK)
    tokens = [request.token for _, request in bench.requests.sent]
    assert tokens == ["token-0000000001", "token-0000000002"]
    assert [request.effect_key for _, request in bench.requests.sent] == ["task-1/pick/do"] * 2


async def test_undo_is_requested_too() -> None:
    """The same queue, the other direction, the other effect key."""
    bench = Bench(replace(QUEUED, on_failure=QUEUED.on_exhausted.COMPENSATE))
    of = replace(QUEUED, on_failure=QUEUED.on_exhausted.COMPENSATE)
    bench.store.put(
        told(pending(of), claimed(), *done("pick"), started("send"), failed("send"), claimed(SECOND))
    )
    await bench.runner.run(TASK, SECOND, PICK)
    [(_, request)] = bench.requests.sent
    assert (request.direction, request.effect_key) == (Direction.UNDO, "task-1/pick/undo")


async def test_request_that_cannot_be_sent_expires() -> None:
    """The step stays as it is recorded, and the Supervisor finds it."""
    bench = Bench()
    bench.requests.failing = True
    assert await bench.runner.run(TASK, FIRST, PICK) == StepReport(Outcome.EXPIRED)
    assert bench.store.record(TASK).step(PICK).state is StepState.RUNNING


HEAVY = workflow(
    step("pick"),
    step("crane", "pick", when=lambda parcel, _: parcel.weight > 5),
    step("send", "crane", when=lambda _, results: results[PICK].get("bin") == "A7"),
    name="heavy",
)


async def test_step_that_the_order_does_not_need_is_skipped_without_a_call() -> None:
    """The parcel weighs 3; the report names what follows."""
    bench = Bench(HEAVY)
    await bench.runner.run(TASK, FIRST, PICK)
    report = await bench.runner.run(TASK, FIRST, StepName("crane"))
    assert report == StepReport(Outcome.SKIPPED, (SEND,))
    assert len(bench.agent.calls) == 1


@pytest.mark.parametrize(("bin_", "outcome"), [("A7", Outcome.COMPLETED), ("B1", Outcome.SKIPPED)])
async def test_condition_sees_the_results_before_it(
    bench_of_heavy: Bench, bin_: str, outcome: Outcome
) -> None:
    """And the task is processed either way."""
    bench_of_heavy.agent.behaviour = lambda: {"bin": bin_}
    for name in ("pick", "crane", "send"):
        report = await bench_of_heavy.runner.run(TASK, FIRST, StepName(name))
    assert report.outcome is outcome
    assert bench_of_heavy.store.record(TASK).task.process_state is ProcessState.PROCESSED


@pytest.fixture
def bench_of_heavy() -> Bench:
    """Make a bench for the workflow with conditions."""
    return Bench(HEAVY)


async def test_step_that_was_begun_is_not_judged_again(bench_of_heavy: Bench) -> None:
    """Whatever its condition says today: its effect may stand, so its outcome is found out."""
    record = told(pending(HEAVY), claimed(), *done("pick"), started("crane"))
    bench_of_heavy.store.put(told(recovered(record), claimed(SECOND)))
    report = await bench_of_heavy.runner.run(TASK, SECOND, StepName("crane"))
    assert report.outcome is Outcome.COMPLETED


async def test_what_another_process_recorded_is_read_before_judging(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record that this process remembers may lack the result of a step that ran beside."""
    bench = Bench(HEAVY)
    known = await bench.store.load(TASK)
    now = told(bench.store.record(TASK), started("pick"), completed("pick", result=b'{"bin":"A7"}'))
    bench.store.put(told(now, started("crane"), completed("crane")))

    async def remembered(_task: object, _epoch: object) -> object:
        return known

    monkeypatch.setattr(bench.store, "recall", remembered)
    assert (await bench.runner.run(TASK, FIRST, SEND)).outcome is Outcome.COMPLETED
