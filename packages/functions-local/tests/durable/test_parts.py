"""The engine's small parts, each on its own."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from functions_local.durable import timers
from functions_local.durable.database import Database
from functions_local.durable.event_json import decode, encode
from functions_local.durable.events import EventRaised, ExecutionStarted, TimerFired
from functions_local.durable.store import Message
from functions_local.durable.timers import Timers
from functions_local.durable.timestamps import from_text, to_text, to_timespan
from functions_local.sqlite_log import Synchronous


def test_timestamps_have_seven_digits() -> None:
    """As .NET writes them; reading takes any ISO 8601 time, without a zone as UTC."""
    moment = datetime(2026, 11, 21, 10, 0, 0, 123456, UTC)
    assert to_text(moment) == "2026-11-21T10:00:00.1234560Z"
    assert from_text("2026-11-21T10:00:00.1234567Z") == moment
    assert from_text("2026-11-21T10:00:00.123456") == moment
    assert from_text("2026-11-21T12:00:00.123456+02:00") == moment
    assert to_timespan(timedelta(days=3, hours=1, microseconds=5)) == "3.01:00:00.0000050"


def test_events_survive_their_json() -> None:
    """What is encoded is decoded the same, lone surrogates included."""
    for event in (
        EventRaised(name="\ud800", input='{"ü": 1}'),
        TimerFired(timer_id=3, fire_at="2026-11-21T10:00:00.0000000Z"),
        ExecutionStarted(orchestration_instance={"InstanceId": "i"}, name="n", input=None),
    ):
        assert decode(encode(event)) == event
    assert '"EventType":15,"IsPlayed":false' in encode(EventRaised(name="e", input=None))


@pytest.fixture
async def database(tmp_path: Path) -> Database:
    """Return an open database with one table."""
    return Database(tmp_path / "x.sqlite", Synchronous.FULL, "CREATE TABLE t(x INTEGER PRIMARY KEY);", 1)


async def test_commits_of_one_turn_are_one_transaction(database: Database) -> None:
    """They are executed in order, and each is told after the commit."""
    told: list[int] = []
    executed: list[str] = []
    database._log._connection.set_trace_callback(executed.append)
    commits = [
        database.commit([("INSERT INTO t VALUES(?)", (n,))], lambda n=n: told.append(n))  # type: ignore[misc]  # a default binds n
        for n in range(3)
    ]
    assert database.query("SELECT count(*) FROM t") == [(0,)]
    await asyncio.gather(*commits)
    assert told == [0, 1, 2]
    assert executed.count("COMMIT") == 1
    database.close()


async def test_a_bad_transaction_harms_no_other(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """If a shared commit fails, its members are committed alone, and only the culprit gets the error."""
    insert = "INSERT INTO t VALUES(?)"
    with caplog.at_level(logging.CRITICAL, "functions_local.durable.database"):
        good, bad, other = (
            database.commit([(insert, (n,)), (insert, (n + offset,))], lambda: None)
            for n, offset in ((1, 1), (5, 0), (7, 1))
        )
        await good
        with pytest.raises(sqlite3.IntegrityError):
            await bad
        await other
    assert database.query("SELECT x FROM t") == [(1,), (2,), (7,), (8,)]
    database.close()


async def test_what_was_handed_in_before_the_close_is_committed(tmp_path: Path, database: Database) -> None:
    """Closing commits what waits."""
    done = database.commit([("INSERT INTO t VALUES(9)", ())], lambda: None)
    database.close()
    assert done.done()
    again = Database(tmp_path / "x.sqlite", Synchronous.NORMAL, "", 1)
    assert again.query("SELECT x FROM t") == [(9,)]
    again.close()


def _timer(number: int, due: float) -> Message:
    return Message(number, "i", None, due, TimerFired(timer_id=number, fire_at=""), "")


async def test_timers_fire_in_the_order_of_their_time() -> None:
    """Whatever the order they were set in, and none before its time."""
    fired: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
    heap = Timers(lambda message: fired.put_nowait((message.number, time.time())), lambda _: True)
    now = time.time()
    for number, delay in ((1, 0.06), (2, 0.02), (3, 0.04)):
        heap.arm(_timer(number, now + delay))
    order = [await asyncio.wait_for(fired.get(), 5) for _ in range(3)]
    assert [number for number, _ in order] == [2, 3, 1]
    assert all(moment >= now + delay for (_, moment), delay in zip(order, (0.02, 0.04, 0.06), strict=True))
    heap.close()


async def test_timers_of_finished_instances_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heap is tidied as it grows."""
    monkeypatch.setattr(timers, "_SMALL", 10)
    heap = Timers(lambda _: None, lambda message: message.number % 50 == 0)
    heap._tidy_at = 10
    for number in range(500):
        heap.arm(_timer(number, time.time() + 3600))
    assert len(heap._heap) < 50
    heap.close()
