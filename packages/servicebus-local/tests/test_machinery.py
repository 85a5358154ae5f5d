"""Timers, duplicate windows and group commits, without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from servicebus_local.broker.queue import DuplicateWindow
from servicebus_local.broker.timers import TimerHeap, now_ms
from servicebus_local.storage.group_commit import GroupCommit
from servicebus_local.storage.log import MessageLog
from servicebus_local.storage.schema import Statement


async def test_timers_run_in_order_and_cancelled_ones_never() -> None:
    """Actions run in the order of their times, not in the order of the calls."""
    timers = TimerHeap(asyncio.get_running_loop())
    ran: list[str] = []
    done = asyncio.Event()
    timers.after(60, done.set)
    timers.after(40, ran.append, "second")
    timers.after(20, ran.append, "first")
    timers.after(30, ran.append, "never").cancel()
    await asyncio.wait_for(done.wait(), 5)
    assert ran == ["first", "second"]
    timers.close()


async def test_cancelled_timers_are_removed() -> None:
    """Timers of days that are cancelled at once, as for completed messages, do not accumulate."""
    timers = TimerHeap(asyncio.get_running_loop())
    for _ in range(10_000):
        timers.at(now_ms() + 10**9, print).cancel()
    assert len(timers) < 200
    timers.close()


def test_duplicate_window_forgets_in_order() -> None:
    """Ids are kept until the end of their window and no longer."""
    window = DuplicateWindow(100)
    window.remember("a", 0)
    assert window.remember("b", 50) == 150
    assert not window.forget_before(99)
    assert window.forget_before(100)
    assert "a" not in window
    assert "b" in window


@pytest.fixture
def log(tmp_path: Path) -> Iterator[MessageLog]:
    """Open an empty log."""
    opened = MessageLog(tmp_path)
    yield opened
    opened.close()


async def test_one_iteration_is_one_commit_before_its_callbacks(log: MessageLog) -> None:
    """All writes of one iteration of the loop are committed together, and only then answered."""
    commit = GroupCommit(log, asyncio.get_running_loop(), lambda: None)
    committed = asyncio.Event()
    statements: list[str] = []
    log._connection.set_trace_callback(statements.append)
    commit.write(Statement.RESERVE_NUMBERS, "a", 1)
    commit.write(Statement.RESERVE_NUMBERS, "b", 2)
    commit.then(committed.set)
    assert not committed.is_set()
    await asyncio.wait_for(committed.wait(), 5)
    assert statements.count("COMMIT") == 1
    assert log.query("SELECT count(*) FROM queue").fetchone() == (2,)


async def test_failed_commit_answers_nothing_any_more(log: MessageLog) -> None:
    """If the log can't be written the broker must stop, and nothing is answered any more."""
    failed = asyncio.Event()
    answered: list[str] = []
    commit = GroupCommit(log, asyncio.get_running_loop(), failed.set)
    log.commit([("DROP TABLE queue", ())])
    commit.write(Statement.RESERVE_NUMBERS, "a", 1)
    commit.then(answered.append, "this")
    await asyncio.wait_for(failed.wait(), 5)
    commit.then(answered.append, "later")
    commit.flush()
    assert answered == []


async def test_one_failing_answer_costs_no_other_its_own(log: MessageLog) -> None:
    """The answers of one commit belong to many clients."""
    commit = GroupCommit(log, asyncio.get_running_loop(), lambda: None)
    answered: list[str] = []
    commit.then(answered.append, "first")
    commit.then(int, "no number")
    commit.then(answered.append, "last")
    commit.flush()
    assert answered == ["first", "last"]


async def test_closing_commits_the_writes_of_the_last_answers(log: MessageLog) -> None:
    """A message that returns because its receiver has gone is written by a callback."""
    commit = GroupCommit(log, asyncio.get_running_loop(), lambda: None)
    commit.then(commit.write, Statement.RESERVE_NUMBERS, "a", 1)
    commit.close()
    assert log.query("SELECT count(*) FROM queue").fetchone() == (1,)


async def test_action_that_sets_a_later_timer_delays_no_other() -> None:
    """The loop still wakes up for the earlier timer."""
    timers = TimerHeap(asyncio.get_running_loop())
    done = asyncio.Event()
    timers.after(0, timers.after, 10**6, print)
    timers.after(50, done.set)
    await asyncio.wait_for(done.wait(), 5)
    timers.close()


async def test_failing_timer_stops_no_other() -> None:
    """The action after it runs at its time."""
    timers = TimerHeap(asyncio.get_running_loop())
    done = asyncio.Event()
    timers.after(0, int, "no number")
    timers.after(1, done.set)
    await asyncio.wait_for(done.wait(), 5)
    timers.close()
