"""The overview counts with a bounded number of requests; operators hold, release and limit its gates."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from functions.core.definition.step_definition import Step
from functions.core.definition.workflow_definition import Workflow
from functions.core.gate_rules import Circuit
from functions.core.task_events import OutcomeKind, Suspended
from functions.messaging.intake_measurement import record_intake
from functions.messaging.queue_depths import Backlog
from functions.operators.minute_rows import delete_before, last_hour, write_minute
from functions.storage.row_keys import shard_name
from functions.storage.table_contract import RowChange
from functions.supervisor.sweep_progress import SUPERVISOR, SupervisorRows
from functions.telemetry.task_counts import TaskCounter
from tests.fakes.clock import START
from tests.unit.operators.conftest import LINE, SHARDS, TRIP, Desk, Parcel, request

MINUTE = START.replace(second=0, microsecond=0)


def _counts(found: dict[str, Any], *names: str) -> list[int]:
    return [found[name]["count"] for name in names or ("under_way", "overdue", "suspended", "in_error")]


async def _suspend(desk: Desk, task: str) -> None:
    await desk.submit(task)
    await desk.change(Suspended(reason="version 1 is not deployed", by_operator=False), task)


async def test_unfinished_tasks_are_counted_by_state_workflow_and_version(desk: Desk) -> None:
    """A processed task is in no count; a task whose row is overdue, and that is not, is not overdue."""
    await desk.in_error("e-1")
    await desk.processed("d-1")
    await desk.submit("p-1")
    await desk.submit("t-1", TRIP)
    await _suspend(desk, "s-1")
    await desk.submit("p-2")
    desk.clock.advance(20)
    await desk.run("p-2")  # its row stays until a sweep moves it
    desk.clock.advance(11)
    await desk.submit("r-1")
    await desk.run("r-1")
    found = await desk.overview()
    assert _counts(found) == [4, 2, 1, 1]
    counts = {"under_way": 3, "overdue": 1, "suspended": 1, "in_error": 1}
    assert found["versions"][1] == {"workflow": "line", "version": 1, "deployed": True, **counts}
    names = ("workflow", "under_way", "overdue")
    assert [[each[name] for name in names] for each in found["versions"]] == [
        ["booking", 0, 0],
        ["line", 3, 1],
        ["paying", 0, 0],
        ["trip", 1, 1],
    ]


async def test_version_that_is_not_deployed_and_needed_is_named() -> None:
    """A deployment must bring it back."""
    desk = Desk(TRIP)
    await desk.submit("p-1", LINE)
    versions = (await desk.overview())["versions"]
    assert [(each["workflow"], each["deployed"], each["under_way"]) for each in versions] == [
        ("line", False, 1),
        ("trip", True, 0),
    ]


async def test_many_rows_are_not_counted_to_the_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """One request for each shard; the overview says that there are more."""
    monkeypatch.setattr("functions.operators.overview.ROWS_PER_REQUEST", 5)
    for number in range(40):
        await desk.submit(f"p-{number}")
    found = await desk.overview()
    assert found["under_way"] == {"count": SHARDS * 5, "more": True}
    assert found["overdue"] == {"count": 0, "more": False}
    desk.clock.advance(60)
    assert (await desk.overview())["overdue"] == {"count": SHARDS * 5, "more": True}


async def test_last_hour_has_60_minutes(desk: Desk) -> None:
    """The sums of all processes; a minute without events is 0."""
    written: Sequence[tuple[int, str, Mapping[TaskCounter, int]]] = (
        (0, "one", {TaskCounter.ACCEPTED: 9}),
        (1, "one", {TaskCounter.ACCEPTED: 3, TaskCounter.PROCESSED: 2, TaskCounter.RECOVERED: 1}),
        (1, "two", {TaskCounter.ACCEPTED: 4, TaskCounter.COMPENSATED: 1, TaskCounter.ERROR: 5}),
        (60, "one", {TaskCounter.PROCESSED: 7}),
        (61, "one", {TaskCounter.PROCESSED: 8}),
    )
    for ago, row, counts in written:
        await write_minute(desk.table, MINUTE - timedelta(minutes=ago), row, counts)
    await desk.table.send("!minutes", [RowChange("insert", "corrupt", {})])
    shown = (await desk.overview())["last_hour"]
    zero = {str(counter): 0 for counter in TaskCounter}
    newest = {"accepted": 7, "processed": 2, "compensated": 1, "error": 5, "recovered": 1}
    assert len(shown) == 60
    assert shown[-1] == {"at": "2026-11-21T09:59:00Z", **newest}
    assert shown[0] == {"at": "2026-11-21T09:00:00Z", **zero, "processed": 7}
    assert all(each | {"at": None} == {"at": None, **zero} for each in shown[1:-1])


async def test_old_rows_of_minutes_are_deleted(desk: Desk) -> None:
    """At most a number at a time, the oldest first, and also behind an empty page."""
    desk.table.begins_empty = True
    for number in range(250):
        minute = MINUTE + timedelta(minutes=number)
        await write_minute(desk.table, minute, "one", {TaskCounter.ACCEPTED: 1})
    before = MINUTE + timedelta(minutes=240)
    deleted = [await delete_before(desk.table, before, 200) for _ in range(3)]
    assert deleted == [200, 40, 0]
    left = await last_hour(desk.table, MINUTE + timedelta(minutes=300))
    assert [each.accepted for each in left] == [1] * 10 + [0] * 50


async def test_operators_share_one_read_for_two_seconds(desk: Desk) -> None:
    """The depths of queues are read every five seconds."""
    await desk.get("/overview")
    reads = desk.table.reads
    await desk.get("/overview")
    assert desk.table.reads == reads
    await desk.overview()
    assert (desk.table.reads > reads, desk.depths_read) == (True, 1)
    await asyncio.sleep(1)
    await desk.overview()
    assert desk.depths_read == 2


async def test_queues_sweeps_and_intake_are_shown(desk: Desk) -> None:
    """As the Supervisor wrote them; null before."""
    found = await desk.overview()
    assert [found[name] for name in ("sweep", "full_sweep", "intake")] == [None] * 3
    assert found["queues"] == [
        {
            "queue": "submissions",
            "waiting": {"count": 100, "has_more": True, "oldest_at": desk.at(0), "scheduled": 2},
            "dead": {"count": 0, "has_more": False, "oldest_at": None, "scheduled": 0},
        }
    ]
    rows = SupervisorRows(desk.table, desk.clock.now)
    report = await rows.begin("sweep", {"due": ["000"]})
    report.recovered = 3
    await rows.record("sweep", report)
    await record_intake(desk.table, Backlog(10, 2_000, START), desk.clock.now())
    found = await desk.overview()
    assert found["sweep"] == {
        "began_at": desk.at(2),
        "ended_at": desk.at(2),
        "figures": {"recovered": 3},
        "left": {"due 000": None},
    }
    assert found["intake"] == {
        "at": desk.at(2),
        "messages": 10,
        "size": 2_000,
        "oldest_at": desk.at(0),
        "retry_after": 30,
    }


async def test_gates_show_circuit_hold_limit_and_deferred_tasks(desk: Desk) -> None:
    """Also a gate without a row: tasks wait behind it, or a deployed workflow has it."""
    for number in range(3):
        await desk.defer(f"p-{number}")
        desk.clock.advance(1)
    await desk.gates.hold("drone", "repair", "ann")
    await desk.gates.set_calls_at_once("drone", 4)
    desk.clock.advance(1)
    await desk.gates.report("pay", OutcomeKind.NOT_BEGUN, desk.clock.now())
    gates = {each["gate"]: each for each in (await desk.overview())["gates"]}
    assert set(gates) == {"drone", "pick", "send", "flight", "hotel", "car", "pay", "mail", "room"}
    drone, pay, pick = gates["drone"], gates["pay"], gates["pick"]
    assert drone["hold"] == {"start": desk.at(3), "reason": "repair", "who": "ann", "end": None}
    assert (drone["calls_at_once"], drone["deferred"]) == (4, {"count": 0, "more": False})
    assert (pay["circuit"], pay["since"], pay["away_from"]) == (Circuit.OPEN, desk.at(4), desk.at(4))
    assert pay["next_at"] > desk.at(4)
    assert (pick["deferred"], pick["deferred_since"]) == ({"count": 3, "more": False}, desk.at(0))


async def test_gate_with_many_tasks_hides_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its further rows are skipped."""
    monkeypatch.setattr("functions.operators.overview.ROWS_PER_REQUEST", 2)
    for gate, count in (("a", 9), ("b", 1)):
        for number in range(count):
            key = f"!gate|{gate}|20261121T10000{number}.000000Z|t-{number}"
            await desk.table.send(shard_name(0), [RowChange("insert", key, {})])
    gates = {each["gate"]: each["deferred"] for each in (await desk.overview())["gates"]}
    assert (gates["a"], gates["b"]) == ({"count": 2, "more": True}, {"count": 1, "more": False})


async def test_corrupt_rows_are_named_and_hide_no_other(desk: Desk) -> None:
    """Rows of tasks, gates, index, heartbeats and the intake."""
    for task in ("p-1", "p-2"):
        await desk.submit(task)
    keys = {place: place[1] for place in desk.table.rows}
    due = next(place for place, key in keys.items() if key.startswith("!due|") and key.endswith("|p-1"))
    desk.table.rows[due]["WorkflowVersion"] = "x"
    row = next(place for place, key in keys.items() if key == "p-2|task")
    desk.table.rows[row]["Facts"] = "{"
    for partition, key in (("gates", "drone"), (SUPERVISOR, "sweep"), ("intake", "latest")):
        await desk.table.send(partition, [RowChange("insert", key, {"Gate": "{"})])
    await desk.table.send(shard_name(1), [RowChange("insert", "!gate|x|y|z", {})])
    desk.clock.advance(60)
    found = await desk.overview()
    assert {each["key"] for each in found["corrupt"]} == {
        due[1],
        "p-2|task",
        "drone",
        "sweep",
        "intake",
        "!gate|x|y|z",
    }
    assert (found["under_way"]["count"], found["overdue"]["count"], found["sweep"]) == (1, 0, None)


async def test_caller_and_figures_are_shown(desk: Desk) -> None:
    """For the page of the console."""
    assert (await desk.get("/me")).json["name"] == "operator"
    assert (await desk.get("/figures")).json == {"service_bus": {"messages": 3}}


REASON = {"reason": "the service is repaired"}
FLOW = Workflow("flow", payload=Parcel, steps=[Step("pay", request=request)])


@pytest.fixture
def gated() -> Desk:
    """Return an application with a workflow of one Agent."""
    return Desk(FLOW)


GATE = "/gates/pay"


async def test_hold_is_recorded_with_who_and_why(gated: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A repeated request changes nothing; the reason is not logged."""
    caplog.set_level(logging.INFO)
    for _ in range(2):
        answer = await gated.post(f"{GATE}/hold", REASON)
        assert (answer.status, answer.json["hold"]["who"]) == (202, "operator")
    [gate] = (await gated.overview())["gates"]
    assert (gate["hold"]["who"], gate["hold"]["reason"]) == ("operator", REASON["reason"])
    assert f"operator action: hold {GATE[1:]} by operator" in caplog.messages
    assert REASON["reason"] not in caplog.text


async def test_second_hold_names_the_first(gated: Desk) -> None:
    """The gate has one hold at a time."""
    answers = await asyncio.gather(
        *(gated.post(f"{GATE}/hold", {"reason": reason}) for reason in ("one", "two"))
    )
    assert sorted(answer.status for answer in answers) == [202, 409]
    [conflict] = [answer for answer in answers if answer.status == 409]
    assert conflict.json["detail"] == (
        "operator holds the gate since 2026-11-21 10:00 UTC. End that hold first."
    )


async def test_end_of_a_hold_starts_the_release(gated: Desk) -> None:
    """A repeated request ends no other hold."""
    end = REASON | {"since": (await gated.post(f"{GATE}/hold", REASON)).json["hold"]["start"]}
    answer = await gated.post(f"{GATE}/end-hold", end)
    assert (answer.status, answer.json["hold"]) == (202, None)
    [gate] = (await gated.overview())["gates"]
    assert (gate["circuit"], gate["hold"]) == (Circuit.HALF_OPEN, None)
    assert (await gated.post(f"{GATE}/end-hold", end)).status == 409
    await gated.post(f"{GATE}/hold", REASON)
    assert (await gated.post(f"{GATE}/end-hold", end)).status == 409
    assert (await gated.overview())["gates"][0]["hold"] is not None


async def test_calls_of_an_instance_are_limited(gated: Desk) -> None:
    """Null is the limit of the Agent's settings."""
    for limit in (4, None):
        answer = await gated.post(f"{GATE}/limit", REASON | {"calls_at_once": limit})
        assert (answer.status, answer.json["calls_at_once"]) == (202, limit)
    for wrong in ({"calls_at_once": 0}, {"calls_at_once": True}, {"calls_at_once": 1001}, {}):
        assert (await gated.post(f"{GATE}/limit", REASON | wrong)).status == 422


@pytest.mark.parametrize(
    ("action", "more"),
    [("hold", {}), ("end-hold", {"since": "2026-11-21T10:00:00Z"}), ("limit", {"calls_at_once": 1})],
)
async def test_action_needs_a_known_gate_and_a_reason(gated: Desk, action: str, more: dict[str, Any]) -> None:
    """A gate without a row is known by the steps that use it."""
    assert (await gated.post(f"/gates/queue:nobody/{action}", REASON | more)).status == 404
    assert (await gated.post(f"/gates/Wrong/{action}", REASON | more)).status == 422
    assert (await gated.post(f"{GATE}/{action}", {"reason": " "} | more)).status == 422


async def test_gates_that_cannot_be_read_are_not_changed(gated: Desk) -> None:
    """The operator repeats the request. The next overview is read again."""
    gated.table.read_fault = lambda: True
    assert (await gated.post(f"{GATE}/hold", REASON)).status == 503
    assert (await gated.get("/overview")).status == 503
    gated.table.read_fault = lambda: False
    gates = (await gated.get("/overview")).json["gates"]
    assert [(each["gate"], each["hold"]) for each in gates] == [("pay", None)]
