"""A task names its order's trace, and leads to where it is shown."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE, TASK
from tests.unit.operations.conftest import Desk

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


async def test_task_names_the_trace_of_its_order(desk: Desk) -> None:
    """By its id, and by an address that has the id where the template says."""
    record = pending(LINE)
    desk.holds(replace(record, order=replace(record.order, traceparent=TRACEPARENT)))
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert (shown["trace_id"], shown["trace_url"]) == (TRACE, f"https://traces.example.com/{TRACE}/all")


async def test_task_without_a_trace_names_none(desk: Desk) -> None:
    """Tracing was off when its order came."""
    desk.holds(pending(LINE))
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert (shown["trace_id"], shown["trace_url"]) == (None, None)


async def test_trace_has_no_address_where_traces_are_not_shown() -> None:
    """Its id is all there is."""
    desk = Desk(trace_url_template=None)
    record = pending(LINE)
    desk.holds(replace(record, order=replace(record.order, traceparent=TRACEPARENT)))
    shown = (await desk.get(f"/tasks/{TASK}")).json
    assert (shown["trace_id"], shown["trace_url"]) == (TRACE, None)
