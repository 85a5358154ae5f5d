"""Replies of Agents behind queues: the right one counts once, any other for nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.agent_messages import AgentReply
from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError
from functions.pattern.identity import StepName, TaskId, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.states import Outcome, ProcessState, StepState, Way
from functions.scheduler.takers import ReplyTaker
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import recovered
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.times import MemoryTimes, RecordedRefusals
from tests.fakes.workflows import LINE, TASK, nested, step, workflow
from tests.unit.scheduler.bench import going_on, over, refuse_results

PICK, SEND = StepName("pick"), StepName("send")
TOKEN = "token-of-this-request"


class Bench:
    """A taker of replies, and a task whose first step is requested."""

    def __init__(self, of: Workflow = LINE) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.rejections = RecordedRejections()
        self.schedulers = RecordedSchedulers()
        self.times = MemoryTimes()
        self.refusals = RecordedRefusals()
        ports = fake_ports(store=self.store, clock=self.clock, rejected=self.rejections, times=self.times)
        self.taker = ReplyTaker(ports, limits(at_once=2), self.refusals.alert)
        self.store.put(told(pending(of), claimed(), started("pick", token=TOKEN)))

    async def take(self, **changes: Any) -> None:
        """Take a reply; without changes it is the right one."""
        right = {
            "schema_version": 1,
            "task_id": TASK,
            "step": PICK,
            "epoch": FIRST,
            "token": TOKEN,
            "outcome": Outcome.COMPLETED,
        }
        reply = AgentReply.model_validate(right | changes)
        await self.taker.take("m-1", reply.model_dump_json().encode(), self.schedulers)

    @property
    def state(self) -> StepState:
        """Look at the step."""
        return self.store.record(TASK).step(PICK).state


@pytest.fixture
def bench() -> Bench:
    """Make a bench."""
    return Bench()


async def test_right_reply_is_recorded_and_its_scheduler_told(bench: Bench) -> None:
    """It hears that something can start now; nothing follows within the record's change."""
    await bench.take(result={"bin": "A7"})
    assert bench.store.record(TASK).step(PICK).result == b'{"bin":"A7"}'
    assert bench.schedulers.woken == [(TASK, FIRST, PICK, going_on(runs=1))]
    assert bench.store.record(TASK).step(SEND).state is StepState.NOT_STARTED


async def test_scheduler_hears_what_else_is_awaited_and_how_much_is_ready() -> None:
    """Each run takes a bounded share of what is ready."""
    print_, *rest = (step(name, "pick") for name in ("print", "wrap", "tag"))
    bench = Bench(workflow(step("pick", via=Way.QUEUE), step("pay", via=Way.QUEUE), print_, *rest))
    bench.store.put(told(bench.store.record(TASK), started("pay", complete_by=25)))
    await bench.take()
    awaited = {"pay": after(25).isoformat()}
    assert [woken[3] for woken in bench.schedulers.woken] == [going_on(runs=2, awaited=awaited)]


async def test_reply_is_recorded_for_as_long_as_it_counts(bench: Bench) -> None:
    """Until the step's complete-by: a blip of the store is outlived."""
    await bench.take()
    assert bench.store.limits == [after(20)]


async def test_refusal_is_recorded_with_its_reason(bench: Bench) -> None:
    """The Scheduler hears that it is over."""
    await bench.take(outcome=Outcome.FAILED, error="no such bin")
    assert bench.store.record(TASK).task.process_state is ProcessState.ERROR
    assert bench.store.record(TASK).task.last_error == "pick: no such bin"
    assert bench.schedulers.woken == [(TASK, FIRST, PICK, over("Error"))]


@pytest.mark.parametrize(
    "changes",
    [
        {"token": "a-token-that-was-guessed"},
        {"epoch": SECOND},
        {"step": SEND},
        {"step": StepName("fly")},
        {"task_id": TaskId("another")},
    ],
    ids=["token", "epoch", "step", "no such step", "no such task"],
)
@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.FAILED])
async def test_forged_reply_counts_for_nothing(
    bench: Bench, changes: dict[str, Any], outcome: Outcome
) -> None:
    """Nothing is written, and nobody is told."""
    writes = bench.store.writes
    await bench.take(outcome=outcome, **changes)
    assert (bench.store.writes, bench.schedulers.woken, bench.rejections.all) == (writes, [], [])


async def test_late_reply_is_refused(bench: Bench) -> None:
    """After complete-by the Supervisor decides."""
    bench.clock.advance(20.1)
    await bench.take()
    assert (bench.state, bench.schedulers.woken) == (StepState.RUNNING, [])


async def test_reply_of_an_older_epoch_is_refused(bench: Bench) -> None:
    """The step is requested anew; only the new request's reply counts."""
    again = told(recovered(bench.store.record(TASK)), claimed(SECOND))
    bench.store.put(told(again, started("pick", SECOND, token="another-token-of-it", complete_by=900)))
    await bench.take()
    assert (bench.state, bench.schedulers.woken) == (StepState.RUNNING, [])


async def test_doubled_reply_is_recorded_once_and_told_twice(bench: Bench) -> None:
    """It may be the second delivery because the first could not tell the Scheduler."""
    bench.schedulers.failing = True
    with pytest.raises(TransientError):
        await bench.take()
    writes, bench.schedulers.failing = bench.store.writes, False
    await bench.take()
    assert bench.store.writes == writes
    assert [woken[3]["runs"] for woken in bench.schedulers.woken] == [1]


async def test_task_is_held_for_a_result_that_no_row_can_hold(bench: Bench) -> None:
    """The step is known to be done."""
    await bench.take(result={"text": "x" * 25_000})
    assert (
        bench.store.record(TASK).task.last_error == "pick: it was done, but its result can't be recorded"
        " (result: has 25011 bytes; at most 24576 can be sent)"
    )


async def test_task_is_held_for_an_outcome_that_the_store_refuses(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator sees why, and no message dies."""
    refuse_results(bench.store, monkeypatch)
    await bench.take()
    assert (bench.store.record(TASK).task.last_error or "").endswith("PropertyValueTooLarge")
    assert bench.schedulers.woken == [(TASK, FIRST, PICK, over("Error"))]


@pytest.mark.parametrize("body", [b"{", b"{}", b"\xff", b'{"task_id": "task-1", "token": "short"}'])
async def test_message_that_is_no_reply_is_kept_aside(bench: Bench, body: bytes) -> None:
    """It is no reason to lose any other."""
    await bench.taker.take("m-9", body, bench.schedulers)
    [rejection] = bench.rejections.all
    assert (rejection.queue, rejection.message_id) == ("agent-replies", "m-9")


async def test_reply_to_a_later_run_is_taken_whatever_this_process_remembers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its token says that the remembered record is older than the request."""
    first = bench.store.record(TASK)
    task = replace(first.task, run=2, locked_by=scheduler_id(TASK, FIRST, 2))
    bench.store.put(replace(first, task=task))
    older = first.with_step(replace(first.step(PICK), token=None))

    async def remembered(_: TaskId) -> TaskRecord:
        return older

    monkeypatch.setattr(bench.store, "known", remembered)
    await bench.take()
    assert bench.state is StepState.COMPLETED
    assert bench.schedulers.runs == [2]


async def test_reply_that_leaves_nothing_but_a_long_wait_asks_for_the_run_that_lets_go() -> None:
    """The Scheduler would keep the task, and the Supervisor would count a recovery."""
    of = workflow(step("pick", via=Way.QUEUE), nested("car"))
    bench = Bench(of)
    bench.store.put(
        told(pending(of), claimed(), started("pick", token=TOKEN), started("car", complete_by=3_600))
    )
    await bench.take()
    assert [woken[3]["runs"] for woken in bench.schedulers.woken] == [1]


async def test_what_follows_a_reply_is_not_left_until_a_long_step_is_overdue() -> None:
    """The Scheduler that is told may be gone: the Supervisor looks whether it has begun what is ready."""
    day = step("weigh", via=Way.QUEUE, complete_within=86_400)
    bench = Bench(workflow(step("pick", via=Way.QUEUE), day, step("send", "pick")))
    bench.store.put(told(bench.store.record(TASK), started("weigh", token="w" * 32, complete_by=86_400)))
    await bench.take()
    assert bench.store.record(TASK).task.complete_by == after(30)
    sent = told(bench.store.record(TASK), started("send", complete_by=40, activity=2))
    assert sent.task.complete_by == after(40)
