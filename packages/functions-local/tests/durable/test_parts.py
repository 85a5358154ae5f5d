"""Times, events as JSON, and timers, each on its own."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from functions_local.durable import scheduling
from functions_local.durable.event_json import decode, encode
from functions_local.durable.events import EventRaised, ExecutionStarted, TimerFired
from functions_local.durable.scheduling import Lane, Timers
from functions_local.durable.store import InstanceMessage
from functions_local.times import from_text, now_text, to_text, to_timespan


def test_timestamps_have_seven_digits() -> None:
    """As .NET writes them; reading takes any ISO 8601 time, without a zone as UTC."""
    moment = datetime(2026, 11, 21, 10, 0, 0, 123456, UTC)
    assert to_text(moment) == "2026-11-21T10:00:00.1234560Z"
    assert from_text("2026-11-21T10:00:00.1234567Z") == moment
    assert from_text("2026-11-21T10:00:00.123456") == moment
    assert from_text("2026-11-21T12:00:00.123456+02:00") == moment
    assert to_timespan(timedelta(days=3, hours=1, microseconds=5)) == "3.01:00:00.0000050"


def test_events_survive_their_json() -> None:
    """Decoding returns what was encoded, lone surrogates included."""
    for event in (
        EventRaised(name="\ud800", input='{"ü": 1}'),
        TimerFired(timer_id=3, fire_at="2026-11-21T10:00:00.0000000Z"),
        ExecutionStarted(orchestration_instance={"InstanceId": "i"}, name="n", input=None),
    ):
        assert decode(encode(event)) == event
    assert '"EventType":15,"IsPlayed":false' in encode(EventRaised(name="e", input=None))


def test_the_present_is_written_like_any_other_time() -> None:
    """Also in the second after the one in which the last was written."""
    before = datetime.now(UTC)
    text = now_text()
    assert to_text(before) <= text <= to_text(datetime.now(UTC))
    assert to_text(from_text(text)) == text


async def test_a_lane_begins_at_once_and_keeps_its_limit() -> None:
    """Work above the limit is queued, and starts as soon as a slot is free."""
    started: list[int] = []
    gate = asyncio.Event()

    async def work(number: int) -> None:
        started.append(number)
        await gate.wait()

    lane = Lane("test", 2, work)
    for number in range(4):
        lane.put(number)
    assert started == [0, 1]
    gate.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert started == [0, 1, 2, 3]
    await lane.close(1)


async def test_a_lane_is_free_again_in_the_turn_in_which_its_work_ends() -> None:
    """Work that a waiter of the finished work puts is started."""
    started: list[int] = []

    async def work(number: int) -> None:
        started.append(number)
        if number == 0:
            await ended
            asyncio.get_running_loop().call_soon(lane.put, 1)

    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    lane = Lane("test", 1, work)
    lane.put(0)
    ended.set_result(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert started == [0, 1]
    await lane.close(1)


def _timer(number: int, due: float) -> InstanceMessage:
    return InstanceMessage(number, "i", None, due, TimerFired(timer_id=number, fire_at=""), "")


async def test_timers_fire_in_the_order_of_their_time() -> None:
    """In any order of their creation, and none early."""
    fired: asyncio.Queue[tuple[int, float]] = asyncio.Queue()
    heap = Timers(lambda message: fired.put_nowait((message.number, time.time())), lambda _: True)
    now = time.time()
    for number, delay in ((1, 0.06), (2, 0.02), (3, 0.04)):
        heap.arm(_timer(number, now + delay))
    order = [await asyncio.wait_for(fired.get(), 5) for _ in range(3)]
    assert [number for number, _ in order] == [2, 3, 1]
    assert all(moment >= now + delay for (_, moment), delay in zip(order, (0.02, 0.04, 0.06), strict=True))
    heap.close()


async def test_timers_of_finished_instances_do_not_accumulate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The heap is pruned as it grows."""
    monkeypatch.setattr(scheduling, "_SMALL", 10)
    heap = Timers(lambda _: None, lambda message: message.number % 50 == 0)
    heap._prune_at = 10
    for number in range(500):
        heap.arm(_timer(number, time.time() + 3600))
    assert len(heap._heap) < 50
    heap.close()
