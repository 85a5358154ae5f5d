"""Events are read as the host passes them, with their shared metadata."""

from __future__ import annotations

from datetime import timedelta

import pytest

from functions.ingestion.batch import events_of
from tests.fakes.clock import START
from tests.fakes.hub_events import batch

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
