"""The summary: counted by pages of the indexes, never by reading all tasks."""

from __future__ import annotations

from datetime import timedelta

from functions.pattern.breaker import BreakerPolicy, after_failure, after_success, as_probe, new_record
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from tests.fakes.clock import START
from tests.fakes.tasks import after, pending
from tests.fakes.workflows import LINE
from tests.unit.operations.conftest import Desk, in_error, processed


async def test_tasks_are_counted_by_where_they_stand(desk: Desk) -> None:
    """Those under way, the overdue ones of them, and those in `Error`."""
    desk.holds(in_error("e-1"), pending(LINE, TaskId("p-1")), pending(LINE, TaskId("p-2")), processed("d-1"))
    summary = (await desk.get("/summary")).json
    assert summary["under_way"] == {"count": 2, "more": False}
    assert summary["overdue"] == {"count": 0, "more": False}
    assert summary["in_error"] == {"count": 1, "more": False}
    desk.clock.advance(30)
    assert (await desk.get("/summary")).json["overdue"] == {"count": 2, "more": False}


async def test_many_tasks_are_not_counted_to_the_end(desk: Desk) -> None:
    """One request for each shard and index; the summary says that there are more."""
    names = [TaskId(f"t-{number}") for number in range(600)]
    due = [IndexEntry(name, START, "line", ProcessState.PENDING) for name in names]
    desk.index.wrong[Index.DUE] = due
    summary = (await desk.get("/summary")).json
    assert summary["under_way"] == summary["overdue"] == {"count": 200, "more": True}
    assert desk.index.requests == 4


async def test_more_that_are_not_due_make_no_more_overdue(desk: Desk) -> None:
    """What is due comes first, and its end was seen."""
    desk.holds(*(pending(LINE, TaskId(f"t-{number}")) for number in range(600)))
    summary = (await desk.get("/summary")).json
    assert summary["under_way"] == {"count": 200, "more": True}
    assert summary["overdue"] == {"count": 0, "more": False}


async def test_last_sweep_is_shown(desk: Desk) -> None:
    """With its figures as the Supervisor left them; null before the first one."""
    assert (await desk.get("/summary")).json["supervisor"] is None
    desk.heartbeat = {"instance": "host-1", "finished_at": START, "recovered": 3}
    shown = (await desk.get("/summary")).json["supervisor"]
    assert shown == {"instance": "host-1", "finished_at": "2026-11-21T10:00:00.123456Z", "recovered": 3}


async def test_services_that_are_left_alone_are_shown(desk: Desk) -> None:
    """With since when, why and until when; those that are back are shown too, for they were away."""
    assert (await desk.get("/summary")).json["breakers"] == []
    policy = BreakerPolicy(failures=1, open_for=timedelta(seconds=15))
    failing = after_failure(new_record("drone", START), "drone answered 503", after(1), policy)
    back = after_success(
        as_probe(after_failure(new_record("pay", START), "", START, policy), START, policy), START
    )
    for record in (failing, back):
        await desk.breaker_rows.swap(record, None)
    shown = (await desk.get("/summary")).json["breakers"]
    assert shown[0] == {
        "service": "drone",
        "state": "open",
        "since": "2026-11-21T10:00:01.123456Z",
        "failures": 1,
        "probe_at": "2026-11-21T10:00:16.123456Z",
        "last_error": "drone answered 503",
    }
    assert [(each["service"], each["state"], each["probe_at"]) for each in shown[1:]] == [
        ("pay", "closed", None)
    ]


async def test_summary_without_the_breakers_is_none(desk: Desk) -> None:
    """As with any other part of the state store that fails."""
    desk.breaker_rows.failure = TransientError("Table Storage: ServiceRequestError")
    assert (await desk.get("/summary")).status == 503
