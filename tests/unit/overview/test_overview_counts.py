"""The overview: counts by the indexes with a bounded number of requests, versions, gates and the intake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from functions.core.gate_rules import Circuit
from functions.core.task_events import OutcomeKind, Suspended
from functions.messaging.intake_measurement import record_intake
from functions.messaging.queue_depths import Backlog
from functions.operators.minute_rows import MinuteRows
from functions.storage.row_keys import shard_name
from functions.storage.table_contract import RowChange
from functions.supervisor.sweep_progress import SUPERVISOR, SupervisorRows
from functions.telemetry.task_counts import TaskCounter
from functions.timers import delete_minutes_before
from tests.fakes.clock import START
from tests.unit.operators.conftest import LINE, SHARDS, TRIP
from tests.unit.overview.conftest import Office

MINUTE = START.replace(second=0, microsecond=0)


def _counts(found: dict[str, Any], *names: str) -> list[int]:
    return [found[name]["count"] for name in names or ("under_way", "overdue", "suspended", "in_error")]


async def _suspend(office: Office, task: str) -> None:
    await office.submit(task)
    await office.change(Suspended(reason="version 1 is not deployed", by_operator=False), task)


async def test_unfinished_tasks_are_counted_by_state_workflow_and_version(office: Office) -> None:
    """A processed task is in no count; a task whose row is overdue, and that is not, is not overdue."""
    await office.in_error("e-1")
    await office.processed("d-1")
    await office.submit("p-1")
    await office.submit("t-1", TRIP)
    await _suspend(office, "s-1")
    office.clock.advance(31)
    await office.submit("r-1")
    await office.run("r-1")
    found = await office.overview()
    assert _counts(found) == [3, 2, 1, 1]
    nothing = dict.fromkeys(("under_way", "overdue", "suspended", "in_error"), 0)
    assert found["workflows"] == [
        {"workflow": "line", **nothing, "under_way": 2, "overdue": 1, "suspended": 1, "in_error": 1},
        {"workflow": "trip", **nothing, "under_way": 1, "overdue": 1},
    ]
    needed = {each["workflow"]: each for each in found["versions"]}
    assert list(needed) == ["booking", "line", "paying", "trip"]
    assert needed["line"] == {
        "workflow": "line",
        "version": 1,
        "deployed": True,
        "under_way": 2,
        "suspended": 1,
        "in_error": 1,
    }
    assert needed["paying"]["under_way"] == 0


async def test_row_of_a_task_that_is_due_later_counts_no_overdue_task(office: Office) -> None:
    """The index row stays until a sweep moves it."""
    await office.submit()
    office.clock.advance(20)
    await office.run()
    office.clock.advance(20)
    assert _counts(await office.overview(), "under_way", "overdue") == [1, 0]
    office.clock.advance(20)
    assert _counts(await office.overview(), "under_way", "overdue") == [1, 1]


async def test_version_that_is_not_deployed_and_needed_is_named() -> None:
    """A deployment must bring it back."""
    office = Office(TRIP)
    await office.submit("p-1", LINE)
    versions = (await office.overview())["versions"]
    assert [(each["workflow"], each["deployed"], each["under_way"]) for each in versions] == [
        ("line", False, 1),
        ("trip", True, 0),
    ]


async def test_many_rows_are_not_counted_to_the_end(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request for each shard; the overview says that there are more."""
    monkeypatch.setattr("functions.operators.overview.ROWS_PER_REQUEST", 5)
    for number in range(40):
        await office.submit(f"p-{number}")
    found = await office.overview()
    assert found["under_way"] == {"count": SHARDS * 5, "more": True}
    assert found["overdue"] == {"count": 0, "more": False}
    office.clock.advance(60)
    assert (await office.overview())["overdue"] == {"count": SHARDS * 5, "more": True}


async def test_last_hour_has_60_minutes(office: Office) -> None:
    """The sums of all processes; a minute without events is 0."""
    rows = MinuteRows(office.table)
    written: Sequence[tuple[int, str, Mapping[TaskCounter, int]]] = (
        (0, "one", {TaskCounter.ACCEPTED: 9}),
        (1, "one", {TaskCounter.ACCEPTED: 3, TaskCounter.PROCESSED: 2, TaskCounter.RECOVERED: 1}),
        (1, "two", {TaskCounter.ACCEPTED: 4, TaskCounter.COMPENSATED: 1, TaskCounter.ERROR: 5}),
        (60, "one", {TaskCounter.PROCESSED: 7}),
        (61, "one", {TaskCounter.PROCESSED: 8}),
    )
    for ago, row, counts in written:
        await rows.write(MINUTE - timedelta(minutes=ago), row, counts)
    await office.table.send("!minutes", [RowChange("insert", "corrupt", {})])
    shown = (await office.overview())["last_hour"]
    zero = {str(counter): 0 for counter in TaskCounter}
    newest = {"accepted": 7, "processed": 2, "compensated": 1, "error": 5, "recovered": 1}
    assert len(shown) == 60
    assert shown[-1] == {"at": "2026-11-21T09:59:00Z", **newest}
    assert shown[0] == {"at": "2026-11-21T09:00:00Z", **zero, "processed": 7}
    assert all(each | {"at": None} == {"at": None, **zero} for each in shown[1:-1])


async def test_old_rows_of_minutes_are_deleted(office: Office) -> None:
    """At most a number at a time, the oldest first, and also behind an empty page."""
    rows, office.table.begins_empty = MinuteRows(office.table), True
    for number in range(250):
        await rows.write(MINUTE + timedelta(minutes=number), "one", {TaskCounter.ACCEPTED: 1})
    before = MINUTE + timedelta(minutes=240)
    deleted = [await delete_minutes_before(office.table, before, 200) for _ in range(3)]
    assert deleted == [200, 40, 0]
    assert len(await rows.since(MINUTE)) == 10


async def test_operators_share_one_read_for_two_seconds(office: Office) -> None:
    """The depths of queues are read every five seconds."""
    await office.get("/overview")
    reads = office.table.reads
    await office.get("/overview")
    assert office.table.reads == reads
    await office.overview()
    assert (office.table.reads > reads, office.depths_read) == (True, 1)
    office.clock.advance(1)
    await office.overview()
    assert office.depths_read == 2


async def test_queues_sweeps_and_intake_are_shown(office: Office) -> None:
    """As the Supervisor wrote them; null before."""
    found = await office.overview()
    assert [found[name] for name in ("sweep", "full_sweep", "intake")] == [None] * 3
    assert found["queues"] == [
        {
            "queue": "submissions",
            "waiting": {"count": 100, "has_more": True, "oldest_at": office.at(0), "scheduled": 2},
            "dead": {"count": 0, "has_more": False, "oldest_at": None, "scheduled": 0},
        }
    ]
    rows = SupervisorRows(office.table, office.clock.now)
    report = await rows.begin("sweep", ["due 000"])
    report.recovered = 3
    await rows.record("sweep", report)
    await record_intake(office.table, Backlog(10, 2_000, START), office.clock.now())
    found = await office.overview()
    assert found["sweep"] == {
        "began_at": office.at(2),
        "ended_at": office.at(2),
        "figures": {"recovered": 3},
        "left": {"due 000": None},
    }
    assert found["intake"] == {
        "at": office.at(2),
        "messages": 10,
        "size": 2_000,
        "oldest_at": office.at(0),
        "retry_after": 30,
    }


async def test_gates_show_circuit_hold_limit_and_deferred_tasks(office: Office) -> None:
    """Also a gate without a row: tasks wait behind it, or a deployed workflow has it."""
    for number in range(3):
        await office.defer(f"p-{number}")
        office.clock.advance(1)
    await office.gates.hold("drone", "repair", "ann")
    await office.gates.set_calls_at_once("drone", 4)
    office.clock.advance(1)
    await office.gates.report("pay", OutcomeKind.NOT_BEGUN, office.clock.now())
    gates = {each["gate"]: each for each in (await office.overview())["gates"]}
    assert set(gates) == {"drone", "pick", "send", "flight", "hotel", "car", "pay", "mail", "room"}
    drone, pay, pick = gates["drone"], gates["pay"], gates["pick"]
    assert drone["hold"] == {"start": office.at(3), "reason": "repair", "who": "ann"}
    assert (drone["calls_at_once"], drone["deferred"]) == (4, {"count": 0, "more": False})
    assert (pay["circuit"], pay["since"], pay["away_from"]) == (Circuit.OPEN, office.at(4), office.at(4))
    assert pay["next_at"] > office.at(4)
    assert (pick["deferred"], pick["deferred_since"]) == ({"count": 3, "more": False}, office.at(0))


async def test_gate_with_many_tasks_hides_no_other(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its further rows are skipped."""
    monkeypatch.setattr("functions.operators.overview.ROWS_PER_REQUEST", 2)
    for gate, count in (("a", 9), ("b", 1)):
        for number in range(count):
            key = f"!gate|{gate}|20261121T10000{number}.000000Z|t-{number}"
            await office.table.send(shard_name(0), [RowChange("insert", key, {})])
    gates = {each["gate"]: each["deferred"] for each in (await office.overview())["gates"]}
    assert (gates["a"], gates["b"]) == ({"count": 2, "more": True}, {"count": 1, "more": False})


async def test_corrupt_rows_are_named_and_hide_no_other(office: Office) -> None:
    """Rows of tasks, gates, index, heartbeats and the intake."""
    for task in ("p-1", "p-2"):
        await office.submit(task)
    keys = {place: place[1] for place in office.table.rows}
    due = next(place for place, key in keys.items() if key.startswith("!due|") and key.endswith("|p-1"))
    office.table.rows[due]["WorkflowVersion"] = "x"
    row = next(place for place, key in keys.items() if key == "p-2|task")
    office.table.rows[row]["Facts"] = "{"
    for partition, key in (("gates", "drone"), (SUPERVISOR, "sweep"), ("intake", "latest")):
        await office.table.send(partition, [RowChange("insert", key, {"Gate": "{"})])
    await office.table.send(shard_name(1), [RowChange("insert", "!gate|x|y|z", {})])
    office.clock.advance(60)
    found = await office.overview()
    assert {each["key"] for each in found["corrupt"]} == {
        due[1],
        "p-2|task",
        "drone",
        "sweep",
        "intake",
        "!gate|x|y|z",
    }
    assert (found["under_way"]["count"], found["overdue"]["count"], found["sweep"]) == (1, 0, None)


async def test_caller_and_figures_are_shown(office: Office) -> None:
    """For the page of the console."""
    assert (await office.get("/me")).json["name"] == "operator"
    assert (await office.get("/figures")).json == {"service_bus": {"messages": 3}}
