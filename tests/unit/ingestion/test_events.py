"""Events are read as the host hands them over, with what they share."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from functions.ingestion.events import MOST_EVENT_BYTES, events_of
from functions.ingestion.known_orders import KnownOrders
from tests.fakes.clock import START
from tests.fakes.hub_events import batch
from tests.unit.ingestion.bench import Bench, order

_TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_event_knows_its_place_and_its_time() -> None:
    """By partition and number; the worker's times have no zone."""
    enqueued_at = START + timedelta(seconds=5)
    first, second = events_of(batch(b"a", b"b", partition="7", first=41, enqueued_at=enqueued_at))
    assert [each.message_id for each in (first, second)] == ["7/41", "7/42"]
    assert (first.enqueued_at, first.get_body(), second.get_body()) == (enqueued_at, b"a", b"b")
    assert (first.subject, first.correlation_id) == (None, None)


@pytest.mark.parametrize("name", ["traceparent", "Diagnostic-Id"])
def test_event_carries_its_own_properties(name: str) -> None:
    """The trace of its sender among them, by its name of today or of before."""
    [first, second] = events_of(batch(b"a", b"b", properties=[{name: _TRACE, "tenant": "blue"}, {}]))
    assert first.application_properties["traceparent"] == _TRACE
    assert first.application_properties["tenant"] == "blue"
    assert second.application_properties == {}


def test_events_without_told_properties_have_none() -> None:
    """As many of them as there are; what is told beyond is no event."""
    assert [each.application_properties for each in events_of(batch(b"a", b"b", properties=[{"x": 1}]))] == [
        {"x": 1},
        {},
    ]
    assert len(events_of(batch(b"a", properties=[{}, {"x": 1}]))) == 1


def test_event_names_its_task_if_it_can_be_read() -> None:
    """For the look-up, and for an alert."""
    bodies = [order("t-1"), b"{", b"[]", b'{"task_id": "a b"}', b"\xff"]
    assert [each.task for each in events_of(batch(*bodies))] == ["t-1", None, None, None, None]


def test_event_that_is_too_large_is_not_parsed_for_its_task() -> None:
    """A hundred of a megabyte each would stop the process for seconds, and none of them is an order."""
    large = order("t-1") + b" " * MOST_EVENT_BYTES
    assert [(each.is_too_large, each.task) for each in events_of(batch(large))] == [(True, None)]


async def test_large_events_are_looked_at_in_turns_with_others(bench: Bench) -> None:
    """Leases and answers wait meanwhile."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await KnownOrders(bench.store).among("3", events_of(batch(*[b"[" * 65_536] * 30)))
    beside.cancel()
    assert turns >= 30
