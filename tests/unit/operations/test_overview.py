"""The overview: counts from the indexes with a bounded number of requests, and versions in use."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from functions.pattern.breaker import BreakerPolicy, after_failure, after_success, as_probe, new_record
from functions.pattern.crowds import CrowdCause
from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId, scheduler_id
from functions.pattern.intake import IntakeLimits, Line, measured
from functions.pattern.known_crowds import Crowd
from functions.pattern.occurrences import TaskCounter
from functions.pattern.records import TaskRecord
from functions.pattern.shares import Share
from functions.pattern.silent_agents import SilentAgent, written_silences
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from functions.supervisor.crowds import written_crowds
from tests.fakes.clock import START
from tests.fakes.minute_counts import NO_STORE
from tests.fakes.tasks import FIRST, after, claimed, pending, told
from tests.fakes.workflows import DIAMOND, LINE
from tests.unit.api.samples import problem
from tests.unit.operations.conftest import Desk, in_error, processed
from tests.unit.pattern.test_parking import REASON, parking


async def test_every_unfinished_task_is_counted_by_state_and_workflow(desk: Desk) -> None:
    """A processed task is in no count of tasks."""
    desk.holds(
        in_error("e-1"), processed("d-1"), pending(LINE, TaskId("p-1")), pending(DIAMOND, TaskId("p-2"))
    )
    desk.clock.advance(31)
    shown = (await desk.get("/overview")).json
    counts = [shown[name] for name in ("under_way", "overdue", "in_error")]
    assert counts == [{"count": 2, "more": False}, {"count": 2, "more": False}, {"count": 1, "more": False}]
    assert shown["workflows"] == [
        _line("diamond", under_way=1, overdue=1),
        _line("line", under_way=1, overdue=1, in_error=1),
    ]


async def test_last_hour_is_shown_minute_by_minute(desk: Desk) -> None:
    """The 60 complete minutes, the sums of all processes; a minute without events is 0."""
    minute = START.replace(second=0, microsecond=0)
    for ago, row, counts in (
        (0, "one", {TaskCounter.ACCEPTED: 9}),
        (1, "one", {TaskCounter.ACCEPTED: 3, TaskCounter.PROCESSED: 2, TaskCounter.RECOVERED: 1}),
        (1, "two", {TaskCounter.ACCEPTED: 4, TaskCounter.COMPENSATED: 1, TaskCounter.ERROR: 5}),
        (60, "one", {TaskCounter.PROCESSED: 7}),
        (61, "one", {TaskCounter.PROCESSED: 8}),
    ):
        await desk.minute_counts.write(minute - timedelta(minutes=ago), row, counts)
    shown = (await desk.get("/overview")).json["last_hour"]
    zero = dict.fromkeys(("accepted", "processed", "compensated", "error", "recovered"), 0)
    assert len(shown) == 60
    newest = {"accepted": 7, "processed": 2, "compensated": 1, "error": 5, "recovered": 1}
    assert shown[-1] == {"at": "2026-11-21T09:59:00Z", **newest}
    assert shown[0] == {"at": "2026-11-21T09:00:00Z", **zero, "processed": 7}
    assert all(each | {"at": None} == {"at": None, **zero} for each in shown[1:-1])


async def test_counts_of_the_last_hour_are_read_every_15_seconds(desk: Desk) -> None:
    """However many operators look; without the counts there is no overview."""
    for seconds in (0, 5, 9, 2):
        desk.clock.advance(seconds)
        assert (await desk.get("/overview")).status == 200
    assert desk.minute_counts.reads == 2
    desk.clock.advance(15)
    desk.minute_counts.failure = NO_STORE
    problem(await desk.get("/overview"), 503)


async def test_many_who_look_at_once_are_one_reading(desk: Desk) -> None:
    """For two seconds; queues, of which more comes along, are looked at every five."""
    await desk.get("/overview")
    requests = desk.index.requests
    await desk.get("/overview")
    assert desk.index.requests == requests
    desk.clock.advance(2)
    await desk.get("/overview")
    assert (desk.index.requests, desk.queues.looks) == (2 * requests, 1)
    desk.clock.advance(3)
    await desk.get("/overview")
    assert desk.queues.looks == 2


async def test_queues_show_what_could_be_seen_of_them(desk: Desk) -> None:
    """A queue that can't be looked at is not an empty one."""
    [orders, alerts] = (await desk.get("/overview")).json["queues"]
    assert orders["waiting"] == {
        "count": 100,
        "more": True,
        "oldest_at": "2026-11-21T10:00:00.123456Z",
        "scheduled": 2,
    }
    assert (orders["dead"]["count"], alerts["waiting"], alerts["dead"]) == (0, None, None)


async def test_store_that_does_not_answer_is_said_and_asked_again(desk: Desk) -> None:
    """503, and no failure is remembered."""
    desk.index.failure = TransientError("Table Storage: ServiceRequestError")
    problem(await desk.get("/overview"), 503)
    desk.index.failure = None
    assert (await desk.get("/overview")).status == 200


async def test_many_tasks_are_not_counted_to_the_end(desk: Desk) -> None:
    """One request for each shard and index; the overview says that there are more."""
    names = [TaskId(f"t-{number}") for number in range(6_000)]
    due = [IndexEntry(name, START, "line", ProcessState.PENDING, START, 1, "ada") for name in names]
    desk.index.wrong[Index.DUE] = due
    overview = (await desk.get("/overview")).json
    assert overview["under_way"] == overview["overdue"] == {"count": 2_000, "more": True}
    assert desk.index.requests == 3 * desk.index.shards


async def test_more_that_are_not_due_make_no_more_overdue(desk: Desk) -> None:
    """What is due comes first, and its end was seen."""
    desk.holds(*(pending(LINE, TaskId(f"t-{number}")) for number in range(6_000)))
    overview = (await desk.get("/overview")).json
    assert overview["under_way"] == {"count": 2_000, "more": True}
    assert overview["overdue"] == {"count": 0, "more": False}


async def test_last_sweep_is_shown(desk: Desk) -> None:
    """With its figures as the Supervisor left them; null before the first one."""
    assert (await desk.get("/overview")).json["supervisor"] is None
    desk.clock.advance(2)
    desk.heartbeat = {"instance": "host-1", "finished_at": START, "recovered": 3}
    shown = (await desk.get("/overview")).json["supervisor"]
    assert shown == {"instance": "host-1", "finished_at": "2026-11-21T10:00:00.123456Z", "recovered": 3}


async def test_open_circuits_are_shown(desk: Desk) -> None:
    """With since when, why and until when; those that are closed again are shown too."""
    assert (await desk.get("/overview")).json["breakers"] == []
    desk.clock.advance(2)
    policy = BreakerPolicy(failures=1, open_for=timedelta(seconds=15))
    failing = after_failure(new_record("drone", START), "drone answered 503", after(1), policy)
    back = after_success(
        as_probe(after_failure(new_record("pay", START), "", START, policy), START, policy), START
    )
    for record in (failing, back):
        await desk.breaker_rows.swap(record, None)
    shown = (await desk.get("/overview")).json["breakers"]
    assert shown[0] == {
        "service": "drone",
        "state": "open",
        "since": "2026-11-21T10:00:01.123456Z",
        "failures": 1,
        "probe_at": "2026-11-21T10:00:16.123456Z",
        "last_error": "drone answered 503",
        **dict.fromkeys(("at_once", "ramp", "limit", "in_flight", "wanted")),
    }
    assert [(each["service"], each["state"], each["probe_at"]) for each in shown[1:]] == [
        ("pay", "closed", None)
    ]


async def test_limit_and_calls_in_flight_are_shown(desk: Desk) -> None:
    """Over all instances, without those whose shares have lapsed; after an outage the ramp is the limit."""
    shares = tuple(
        Share(holder=holder, places=4, wanted=9, in_flight=3, until=after(seconds))
        for holder, seconds in (("one", 20), ("two", 10), ("three", -1))
    )
    record = replace(new_record("drone", START), at_once=10, shares=shares)
    for each in (record, replace(record, service="pay", ramp=2, ramp_at=START)):
        await desk.breaker_rows.swap(each, None)
    shown = (await desk.get("/overview")).json["breakers"]
    fields = ("service", "at_once", "ramp", "limit", "in_flight", "wanted")
    assert [[each[field] for field in fields] for each in shown] == [
        ["drone", 10, None, 10, 6, 18],
        ["pay", 10, 2, 2, 6, 18],
    ]


async def test_overview_without_the_breakers_is_none(desk: Desk) -> None:
    """As with any other part of the state store that fails."""
    desk.breaker_rows.failure = TransientError("Table Storage: ServiceRequestError")
    assert (await desk.get("/overview")).status == 503


def _line(workflow: str, **counts: int) -> dict[str, str | int]:
    kinds = ("under_way", "overdue", "parked", "in_error")
    return {"workflow": workflow, **dict.fromkeys(kinds, 0), **counts}


async def test_agents_that_do_not_reply_are_shown(desk: Desk) -> None:
    """Since when, and how many tasks wait for them."""
    desk.silence = written_silences((SilentAgent(agent="payment", since=START, tasks=40, found_at=START),))
    [silent] = (await desk.get("/overview")).json["silent_agents"]
    assert (silent["agent"], silent["tasks"]) == ("payment", 40)


async def test_crowds_and_what_waits_to_be_taken_in_are_shown(desk: Desk) -> None:
    """As the last sweep, and the last measurement, have left them."""
    assert [(await desk.get("/overview")).json[name] for name in ("crowds", "intake")] == [[], None]
    desk.clock.advance(3)
    crowd = Crowd(
        behind="Agent drone",
        cause=CrowdCause.CIRCUIT_OPEN,
        since=START,
        tasks=40,
        found_at=START,
        until=START,
    )
    limits = IntakeLimits(age=timedelta(minutes=1), waiting=9)
    desk.crowds = written_crowds((crowd,))
    desk.intake = asdict(measured(Line(10, START), 2, after(3), limits))
    shown = (await desk.get("/overview")).json
    [late] = shown["crowds"]
    assert (late["behind"], late["cause"], late["tasks"]) == ("Agent drone", "circuit open", 40)
    assert (shown["intake"]["messages"], shown["intake"]["retry_after"]) == (10, 20)


def _parked(name: str, version: int = 1) -> TaskRecord:
    task = TaskId(name)
    record = told(pending(replace(LINE, version=version), task), claimed(task=task))
    return told(record, replace(parking(record), scheduler=scheduler_id(task, FIRST)))


async def _listed(desk: Desk, query: str) -> list[str]:
    return [line["id"] for line in (await desk.get(f"/tasks?{query}")).json["tasks"]]


async def test_parked_task_is_shown_with_its_reason(desk: Desk) -> None:
    """It is not due: no time is awaited."""
    desk.holds(_parked("p-1"))
    shown = (await desk.get("/tasks/p-1")).json
    assert (shown["parked"], shown["state"], shown["due_at"]) == (True, "Pending", None)
    assert (shown["last_error"], shown["workflow_version"]) == (REASON, 1)
    assert shown["birth"] == "0a1b2c3d"


async def test_parked_tasks_have_a_list_of_their_own(desk: Desk) -> None:
    """They are not among those that wait for their Scheduler."""
    desk.holds(_parked("p-1"), _parked("p-2", version=2), pending(LINE, TaskId("w-1")), in_error("e-1"))
    assert sorted(await _listed(desk, "parked=true")) == ["p-1", "p-2"]
    assert await _listed(desk, "parked=true&version=2") == ["p-2"]
    assert await _listed(desk, "parked=true&prefix=p-") == ["p-1", "p-2"]
    assert await _listed(desk, "parked=true&prefix=w-") == []
    assert await _listed(desk, "prefix=p-&version=2") == ["p-2"]
    assert await _listed(desk, "state=Pending") == ["w-1"]


async def test_versions_are_counted_by_what_still_needs_them(desk: Desk) -> None:
    """What is deployed and needed by none can be dropped; what is needed and not deployed must come back."""
    desk.holds(
        _parked("p-1", version=2),
        _parked("p-2", version=2),
        pending(LINE, TaskId("w-1")),
        in_error("e-1"),
        processed("d-1"),
        pending(DIAMOND, TaskId("w-2")),
    )
    overview = (await desk.get("/overview")).json
    assert overview["versions"] == [
        _version("diamond", 1, deployed=False, under_way=1),
        _version("line", 1, deployed=True, under_way=1, in_error=1),
        _version("line", 2, deployed=False, parked=2),
    ]
    assert (overview["parked"], overview["under_way"]["count"]) == ({"count": 2, "more": False}, 2)
    assert [(each["workflow"], each["parked"]) for each in overview["workflows"]] == [
        ("diamond", 0),
        ("line", 2),
    ]


async def test_version_that_nobody_needs_is_counted_as_none(desk: Desk) -> None:
    """That is what a deployment without it waits for."""
    desk.holds(processed("d-1"))
    assert (await desk.get("/overview")).json["versions"] == [_version("line", 1, deployed=True)]


def _version(workflow: str, version: int, *, deployed: bool, **counts: int) -> dict[str, Any]:
    nothing = {"under_way": 0, "parked": 0, "in_error": 0}
    return {"workflow": workflow, "version": version, "deployed": deployed, **nothing, **counts}
