"""Replies of Agents behind queues: the right one counts once, any other is ignored."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.agent_messages import AgentReply
from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError
from functions.pattern.events import Event
from functions.pattern.identity import StepName, TaskId, scheduler_id, start_of
from functions.pattern.records import TaskRecord
from functions.pattern.states import Outcome, ProcessState, StepState, Way
from functions.scheduler.takers import ReplyTaker
from functions.telemetry.instruments import FORGED_REPLIES
from tests.fakes.clock import FakeClock
from tests.fakes.interventions import giving_up, recovered, resubmission, undo_request
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.times import MemoryTimes, RecordedRefusals
from tests.fakes.workflows import LINE, TASK, each, nested, step, workflow
from tests.unit.scheduler.bench import Bench, going_on, over, refuse_results

PICK, SEND = StepName("pick"), StepName("send")
TOKEN = "token-of-this-request"


class ReplyBench:
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
def bench() -> ReplyBench:
    """Make a bench."""
    return ReplyBench()


async def test_right_reply_is_recorded_and_its_scheduler_told(bench: ReplyBench) -> None:
    """It hears that something can start now; nothing follows within the record's change."""
    await bench.take(result={"bin": "A7"})
    assert bench.store.record(TASK).step(PICK).result == b'{"bin":"A7"}'
    assert bench.schedulers.woken == [(TASK, FIRST, PICK, going_on(runs=1))]
    assert bench.store.record(TASK).step(SEND).state is StepState.NOT_STARTED


async def test_scheduler_hears_what_else_is_awaited_and_how_much_is_ready() -> None:
    """Each run takes a bounded share of what is ready."""
    print_, *rest = (step(name, "pick") for name in ("print", "wrap", "tag"))
    bench = ReplyBench(workflow(step("pick", via=Way.QUEUE), step("pay", via=Way.QUEUE), print_, *rest))
    bench.store.put(told(bench.store.record(TASK), started("pay", complete_by=25)))
    await bench.take()
    awaited = {"pay": after(25).isoformat()}
    assert [woken[3] for woken in bench.schedulers.woken] == [going_on(runs=2, awaited=awaited)]


async def test_reply_is_recorded_for_as_long_as_it_counts(bench: ReplyBench) -> None:
    """Until the step's complete-by: a blip of the store is outlived."""
    await bench.take()
    assert bench.store.limits == [after(20)]


async def test_refusal_is_recorded_with_its_reason(bench: ReplyBench) -> None:
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
    bench: ReplyBench, changes: dict[str, Any], outcome: Outcome
) -> None:
    """Nothing is written, and nobody is told."""
    writes = bench.store.writes
    await bench.take(outcome=outcome, **changes)
    assert (bench.store.writes, bench.schedulers.woken, bench.rejections.all) == (writes, [], [])


async def test_late_reply_is_refused(bench: ReplyBench) -> None:
    """After complete-by the Supervisor decides."""
    bench.clock.advance(20.1)
    await bench.take()
    assert (bench.state, bench.schedulers.woken) == (StepState.RUNNING, [])


async def test_doubled_reply_is_recorded_once_and_told_twice(bench: ReplyBench) -> None:
    """It may be the second delivery because the first could not tell the Scheduler."""
    bench.schedulers.failing = True
    with pytest.raises(TransientError):
        await bench.take()
    writes, bench.schedulers.failing = bench.store.writes, False
    await bench.take()
    assert bench.store.writes == writes
    assert [woken[3]["runs"] for woken in bench.schedulers.woken] == [1]


async def test_task_is_held_for_an_outcome_that_the_store_refuses(
    bench: ReplyBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator sees why, and no message dies."""
    refuse_results(bench.store, monkeypatch)
    await bench.take()
    assert (bench.store.record(TASK).task.last_error or "").endswith("PropertyValueTooLarge")
    assert bench.schedulers.woken == [(TASK, FIRST, PICK, over("Error"))]


@pytest.mark.parametrize("body", [b"{", b"{}", b"\xff", b'{"task_id": "task-1", "token": "short"}'])
async def test_message_that_is_no_reply_is_kept_aside(bench: ReplyBench, body: bytes) -> None:
    """It is no reason to lose any other."""
    await bench.taker.take("m-9", body, bench.schedulers)
    [rejection] = bench.rejections.all
    assert (rejection.queue, rejection.message_id) == ("agent-replies", "m-9")


async def test_reply_to_a_later_run_is_taken_whatever_this_process_remembers(
    bench: ReplyBench, monkeypatch: pytest.MonkeyPatch
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
    bench = ReplyBench(of)
    bench.store.put(
        told(pending(of), claimed(), started("pick", token=TOKEN), started("car", complete_by=3_600))
    )
    await bench.take()
    assert [woken[3]["runs"] for woken in bench.schedulers.woken] == [1]


async def test_what_follows_a_reply_is_not_left_until_a_long_step_is_overdue() -> None:
    """The Scheduler that is told may be gone: the Supervisor looks whether it has begun what is ready."""
    day = step("weigh", via=Way.QUEUE, complete_within=86_400)
    bench = ReplyBench(workflow(step("pick", via=Way.QUEUE), day, step("send", "pick")))
    bench.store.put(told(bench.store.record(TASK), started("weigh", token="w" * 32, complete_by=86_400)))
    await bench.take()
    assert bench.store.record(TASK).task.complete_by == after(30)
    sent = told(bench.store.record(TASK), started("send", complete_by=40, activity=2))
    assert sent.task.complete_by == after(40)


QUEUED = workflow(step("pick", via=Way.QUEUE), step("send", "pick"), name="line-q")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Count what is counted as forged."""
    counted: list[Any] = []
    monkeypatch.setattr(FORGED_REPLIES, "add", lambda number, facts: counted.append((number, facts)))
    return counted


async def _log_of(bench: ReplyBench, caplog: pytest.LogCaptureFixture, **changes: Any) -> tuple[int, str]:
    """Take a reply; return what is logged of it, and how loudly."""
    caplog.set_level(logging.INFO, logger="functions.scheduler")
    await bench.take(**changes)
    [record] = [each for each in caplog.records if "counts for nothing" in each.getMessage()]
    return record.levelno, record.getMessage().partition("counts for nothing: ")[2]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"task_id": TaskId("another")}, "there is no such task"),
        ({"step": StepName("fly")}, "the task has no such step"),
        ({"epoch": SECOND}, "its epoch has not begun"),
    ],
    ids=["task", "step", "epoch"],
)
async def test_reply_to_nothing_says_to_what(
    caplog: pytest.LogCaptureFixture, changes: dict[str, Any], why: str
) -> None:
    """It shows no life of an Agent."""
    bench = ReplyBench()
    assert await _log_of(bench, caplog, **changes) == (logging.INFO, why)
    assert bench.times.kept == {}


@pytest.mark.parametrize("ended", [False, True])
async def test_reply_with_another_token_may_be_forged(
    caplog: pytest.LogCaptureFixture, counted: list[Any], *, ended: bool
) -> None:
    """Also when its task has ended: an alert rule can ask for the metric. It shows no life of the Agent."""
    bench = ReplyBench()
    if ended:
        bench.store.put(told(bench.store.record(TASK), failed("pick", token=TOKEN)))
    level, why = await _log_of(bench, caplog, token="a-token-that-was-guessed")
    assert (level, why) == (logging.WARNING, "it carries another token than the request")
    assert counted == [(1, {"step.agent": LINE.steps[0].agent})]
    assert bench.times.kept == {}


async def test_reply_of_an_older_epoch_says_so(caplog: pytest.LogCaptureFixture, counted: list[Any]) -> None:
    """It is no forgery: its Agent was slow, and lives."""
    bench = ReplyBench()
    again = told(recovered(bench.store.record(TASK)), claimed(SECOND))
    bench.store.put(told(again, started("pick", SECOND, token="another-token-of-it", complete_by=900)))
    level, why = await _log_of(bench, caplog)
    assert (level, why) == (logging.INFO, "it is of epoch 1, and the task is in epoch 2")
    assert (counted, len(bench.times.kept)) == ([], 1)
    assert (bench.state, bench.schedulers.woken) == (StepState.RUNNING, [])


@pytest.mark.parametrize(
    ("seconds", "has_ended", "why"),
    [
        (23.25, False, "it is late by 3.2 s"),
        (30, True, "it is late by 10.0 s, and the task: finished"),
    ],
)
async def test_late_reply_says_how_late_it_is(
    caplog: pytest.LogCaptureFixture, seconds: float, why: str, *, has_ended: bool
) -> None:
    """From the complete-by of the step; and the state of a task that has ended."""
    bench = ReplyBench()
    bench.clock.advance(seconds)
    if has_ended:
        bench.store.put(told(bench.store.record(TASK), failed("pick", token=TOKEN)))
    assert await _log_of(bench, caplog) == (logging.INFO, why)


async def test_refusal_of_what_is_done_says_why_it_counts_for_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In time, but after its task has ended."""
    bench = ReplyBench(workflow(step("pick", via=Way.QUEUE), name="short"))
    await bench.take()
    assert await _log_of(bench, caplog, outcome="failed", error="no") == (logging.INFO, "finished")


async def test_undo_is_done_whatever_it_gives() -> None:
    """Nobody needs its result."""
    of = workflow(step("pick", via=Way.QUEUE, undo=True), name="undone")
    bench = ReplyBench(of)
    held = told(bench.store.record(TASK), failed("pick", token=TOKEN))
    undoing = told(held, undo_request(), claimed(SECOND), started("pick", SECOND, token=TOKEN))
    bench.store.put(undoing)
    await bench.take(epoch=SECOND, result={"text": "x" * 25_000})
    assert bench.state is StepState.UNDONE


async def test_life_is_noted_every_ten_seconds_at_most() -> None:
    """In a row of the Agent's own; a failure there costs no reply."""
    times = MemoryTimes()
    bench = ReplyBench(QUEUED)
    taker = ReplyTaker(
        fake_ports(store=bench.store, clock=bench.clock, times=times), limits(), RecordedRefusals().alert
    )
    bench.taker, times.failing = taker, True
    await bench.take()
    assert (bench.state, times.kept, times.asked) == (StepState.COMPLETED, {}, 1)
    times.failing = False
    for _ in range(5):
        await bench.take()
    assert (len(times.kept), times.asked) == (1, 2)
    bench.clock.advance(10)
    await bench.take()
    assert times.asked == 3
    assert list(times.kept.values()) == [bench.clock.now()]


async def test_slow_reply_of_an_item_that_was_asked_for_again_is_no_forgery(
    caplog: pytest.LogCaptureFixture, counted: list[Any]
) -> None:
    """Its first request's token is not kept, and it is not taken for another item's of that epoch."""
    slow, bench = "token-of-the-slow-item", ReplyBench()
    record = pending(workflow(each("pick", via=Way.QUEUE)))
    record = told(record, claimed(), started("pick.0", token=TOKEN), started("pick.1", token=slow))
    record = told(recovered(told(record, completed("pick.0", token=TOKEN))), claimed(SECOND))
    bench.store.put(told(record, started("pick.1", SECOND, token="another-token-of-it", complete_by=900)))
    level, why = await _log_of(bench, caplog, token=slow)
    assert (level, why) == (logging.INFO, "it is of epoch 1, and the task is in epoch 2")
    assert (counted, len(bench.times.kept)) == ([], 1)


PAY = StepName("pay")


async def _requested_and_held() -> tuple[Bench, str]:
    """Return a task that was held when nothing was heard of its payment, and the request's token."""
    bench = Bench(workflow(step("pay", idempotent=False, via=Way.QUEUE), name="paying"))
    await bench.run()
    bench.clock.advance(60)
    bench.store.put(told(bench.store.record(TASK), giving_up(hold=True), now=bench.clock.now()))
    return bench, bench.requests.sent[0][1].token


async def _take(bench: Bench, **said: Any) -> None:
    ports = fake_ports(store=bench.store, clock=bench.clock, rejected=RecordedRejections())
    reply = AgentReply.model_validate(
        {"schema_version": 1, "task_id": TASK, "step": PAY, "epoch": FIRST, **said}
    )
    taker = ReplyTaker(ports, limits(), RecordedRefusals().alert)
    await taker.take("m-1", reply.model_dump_json().encode(), RecordedSchedulers())


async def test_late_reply_is_known_on_its_step_only() -> None:
    """The task stays held; a resubmission repeats nothing, and finds nothing left to do."""
    bench, token = await _requested_and_held()
    held = bench.store.record(TASK)
    await _take(bench, token=token, outcome=Outcome.COMPLETED, result={"receipt": 1})
    known = bench.store.record(TASK)
    assert (known.step(PAY).state, known.step(PAY).result) == (StepState.COMPLETED, b'{"receipt":1}')
    assert known.task == held.task
    again = told(known, resubmission(), now=bench.clock.now())
    assert again.task.process_state is ProcessState.PROCESSED
    # Late reply without a usable result says that it was done.
    bench, token = await _requested_and_held()
    await _take(bench, token=token, outcome=Outcome.COMPLETED, no_result="no JSON")
    pay = bench.store.record(TASK).step(PAY)
    assert (pay.state, pay.error) == (StepState.UNRECORDED, "it was done, but no JSON")
    # Late reply with another token counts for nothing.
    bench, _ = await _requested_and_held()
    start_id = bench.step("pay").start_id
    assert start_id is not None
    await _take(bench, token=start_id, outcome=Outcome.COMPLETED)
    assert bench.step("pay").state is StepState.RUNNING


BOTH = workflow(step("pick", via=Way.QUEUE), step("pay", idempotent=False, complete_within=100), name="shop")
ONCE = workflow(step("pick", via=Way.QUEUE, idempotent=False), name="shop")
PICKING = started("pick", token=TOKEN, start_id=start_of(TOKEN))


@pytest.mark.parametrize(
    ("of", "beside", "seconds", "said", "state"),
    [
        (BOTH, [started("pay", complete_by=100)], 0, {"outcome": "failed", "error": "no"}, StepState.FAILED),
        (ONCE, [], 21, {"outcome": "failed", "error": "no"}, StepState.FAILED),
        (ONCE, [], 21, {"no_result": "not JSON"}, StepState.UNRECORDED),
    ],
    ids=["its decision waits", "late refusal", "late, without a usable result"],
)
async def test_reply_may_come_twice(
    of: Workflow, beside: list[Event], seconds: float, said: dict[str, Any], state: StepState
) -> None:
    """The Scheduler could not be woken, so the message is delivered again."""
    bench = ReplyBench(of)
    bench.store.put(told(pending(of), claimed(), PICKING, *beside))
    bench.clock.advance(seconds)
    for _ in range(2):
        await bench.take(**said)
    assert bench.state is state
