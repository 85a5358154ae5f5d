"""A reply that counts for nothing says which it is; one that may be forged is a warning, and counted."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from functions.pattern.identity import StepName, TaskId
from functions.pattern.states import StepState, Way
from functions.scheduler.takers import ReplyTaker
from functions.telemetry.instruments import FORGED_REPLIES
from tests.fakes.interventions import recovered, undo_request
from tests.fakes.ports import fake_ports
from tests.fakes.runners import limits
from tests.fakes.tasks import SECOND, claimed, completed, failed, pending, started, told
from tests.fakes.times import MemoryTimes, RecordedRefusals
from tests.fakes.workflows import LINE, TASK, each, step, workflow
from tests.unit.scheduler.test_replies import TOKEN, Bench

QUEUED = workflow(step("pick", via=Way.QUEUE), step("send", "pick"), name="line-q")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Count what is counted as forged."""
    counted: list[Any] = []
    monkeypatch.setattr(FORGED_REPLIES, "add", lambda number, facts: counted.append((number, facts)))
    return counted


async def _log_of(bench: Bench, caplog: pytest.LogCaptureFixture, **changes: Any) -> tuple[int, str]:
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
    bench = Bench()
    assert await _log_of(bench, caplog, **changes) == (logging.INFO, why)
    assert bench.times.kept == {}


@pytest.mark.parametrize("ended", [False, True])
async def test_reply_with_another_token_may_be_forged(
    caplog: pytest.LogCaptureFixture, counted: list[Any], *, ended: bool
) -> None:
    """Also when its task has ended: an alert rule can ask for the metric. It shows no life of the Agent."""
    bench = Bench()
    if ended:
        bench.store.put(told(bench.store.record(TASK), failed("pick", token=TOKEN)))
    level, why = await _log_of(bench, caplog, token="a-token-that-was-guessed")
    assert (level, why) == (logging.WARNING, "it carries another token than the request")
    assert counted == [(1, {"step.agent": LINE.steps[0].agent})]
    assert bench.times.kept == {}


async def test_reply_of_an_older_epoch_says_so(caplog: pytest.LogCaptureFixture, counted: list[Any]) -> None:
    """It is no forgery: its Agent was slow, and lives."""
    bench = Bench()
    again = told(recovered(bench.store.record(TASK)), claimed(SECOND))
    bench.store.put(told(again, started("pick", SECOND, token="another-token-of-it", complete_by=900)))
    level, why = await _log_of(bench, caplog)
    assert (level, why) == (logging.INFO, "it is of epoch 1, and the task is in epoch 2")
    assert (counted, len(bench.times.kept)) == ([], 1)


async def test_late_reply_says_how_late_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """From the step's complete-by on."""
    bench = Bench()
    bench.clock.advance(23.25)
    assert await _log_of(bench, caplog) == (logging.INFO, "it is late by 3.2 s")


async def test_late_reply_to_a_task_that_has_ended_says_both(caplog: pytest.LogCaptureFixture) -> None:
    """An operator sees what he could not wait for."""
    bench = Bench()
    bench.clock.advance(30)
    bench.store.put(told(bench.store.record(TASK), failed("pick", token=TOKEN)))
    assert await _log_of(bench, caplog) == (logging.INFO, "it is late by 10.0 s, and the task: finished")


async def test_refusal_of_what_is_done_says_why_it_counts_for_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In time, but after its task has ended."""
    bench = Bench(workflow(step("pick", via=Way.QUEUE), name="short"))
    await bench.take()
    assert await _log_of(bench, caplog, outcome="failed", error="no") == (logging.INFO, "finished")


async def test_undo_is_done_whatever_it_gives() -> None:
    """Nobody needs its result."""
    of = workflow(step("pick", via=Way.QUEUE, undo=True), name="undone")
    bench = Bench(of)
    held = told(bench.store.record(TASK), failed("pick", token=TOKEN))
    undoing = told(held, undo_request(), claimed(SECOND), started("pick", SECOND, token=TOKEN))
    bench.store.put(undoing)
    await bench.take(epoch=SECOND, result={"text": "x" * 25_000})
    assert bench.state is StepState.UNDONE


async def test_life_is_noted_every_ten_seconds_at_most() -> None:
    """In a row of the Agent's own; a failure there costs no reply."""
    times = MemoryTimes()
    bench = Bench(QUEUED)
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
    slow, bench = "token-of-the-slow-item", Bench()
    record = pending(workflow(each("pick", via=Way.QUEUE)))
    record = told(record, claimed(), started("pick.0", token=TOKEN), started("pick.1", token=slow))
    record = told(recovered(told(record, completed("pick.0", token=TOKEN))), claimed(SECOND))
    bench.store.put(told(record, started("pick.1", SECOND, token="another-token-of-it", complete_by=900)))
    level, why = await _log_of(bench, caplog, token=slow)
    assert (level, why) == (logging.INFO, "it is of epoch 1, and the task is in epoch 2")
    assert (counted, len(bench.times.kept)) == ([], 1)
