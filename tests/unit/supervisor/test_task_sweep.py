"""The sweep over due and suspended tasks, and over release chains."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from functions.core.definition.step_definition import Results, Step, WorkflowStep
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.derive import WaitingFor, derive
from functions.core.record import StepSpec, StepType
from functions.core.rules import Applied
from functions.core.task_events import StepDeferred, Suspended
from functions.messaging.intake_measurement import IntakeBounds
from functions.storage.row_keys import TaskIndex, gate_key, index_range, shard_name
from functions.storage.table_contract import RowChange, RowQuery, TransientStorageError, UnwritableRowsError
from functions.supervisor.sweep_progress import _HEARTBEAT, SUPERVISOR, Heartbeat, SweepReport, report_sweep
from functions.supervisor.task_sweep import sweep_once
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.storage_process import START, line, virtual_now
from tests.unit.storage.virtual import virtual
from tests.unit.supervisor.supervised import Payload, Supervised, admit_due, ending_table, workflow

NOT_DEPLOYED = Suspended(reason="w version 1 is not deployed")


def heartbeat(table: IndexedTable) -> Heartbeat:
    """Return the heartbeat of the last sweep."""
    return _HEARTBEAT.validate_json(table.rows[SUPERVISOR, "sweep"]["Heartbeat"])


@virtual
async def test_overdue_task_is_recovered_once_and_the_heartbeat_says_so() -> None:
    """The next epoch has one failure, and no sweep after that finds it."""
    table = IndexedTable(seconds=0.01)
    process = await admit_due(table, 1)
    report = await process.sweep()
    assert report.figures == {"examined": 1, "recovered": 1, "late_seconds": 3}
    record = await process.record("t0000")
    assert (record.epoch, record.failures) == (2, 1)
    beat = heartbeat(table)
    assert (beat.figures, beat.left) == (report.figures, {})
    assert timedelta() < beat.ended_at - beat.began_at < timedelta(seconds=1)
    assert (await process.sweep()).recovered == 0


@virtual
async def test_two_supervisors_at_once_recover_a_task_once() -> None:
    """The recovery is an event on the newest record, so the second one finds nothing due."""
    table = IndexedTable(seconds=0.01)
    first = await admit_due(table, 40, shards=2)
    second = Supervised(table, shards=2)
    one, other = await asyncio.gather(first.sweep(), second.sweep())
    assert one.recovered + other.recovered == 40
    assert (one.failed, other.failed) == (0, 0)
    records = [await first.record(f"t{n:04d}") for n in range(40)]
    assert {(record.epoch, record.failures) for record in records} == {(2, 1)}


@virtual
async def test_recoveries_of_a_sweep_are_bounded() -> None:
    """The further ones follow in the next sweeps."""
    table = IndexedTable()
    process = await admit_due(table, 20)
    process = Supervised(table, recoveries=6)
    assert [(await process.sweep()).recovered for _ in range(5)] == [6, 6, 6, 2, 0]


@virtual
async def test_task_that_is_due_and_not_recovered_leaves_room_for_a_recovery() -> None:
    """The ends of eight waits count for no recovery."""
    process = Supervised(IndexedTable(), recoveries=1)
    for number in range(8):
        await process.admit(f"e{number}", StepSpec(name="e", type=StepType.EVENT, complete_within=20))
        await process.start(f"e{number}")
    await process.admit("t1")
    await asyncio.sleep(33)
    report = await process.sweep()
    assert (report.examined, report.recovered, (await process.record("t1")).epoch) == (9, 1, 2)


@virtual
async def test_tasks_that_are_due_later_are_moved() -> None:
    """Only a sweep moves an index row, also with an outdated cache; no other looks at it before its time."""
    table = IndexedTable()
    process, other = Supervised(table), Supervised(table)
    for number in range(5):
        await process.admit(f"t{number}", *line(2, complete_within=300.0))
        await (process, other)[number % 2].start(f"t{number}")
    await asyncio.sleep(33)
    early = table.keys("!due|")
    report = await process.sweep()
    assert report.figures == {"examined": 5, "moved": 5}
    assert {key.partition("|")[2] for key in early}.isdisjoint(
        key.partition("|")[2] for key in table.keys("!due")
    )
    due = [key for key in table.keys("!due|") if key < index_range(TaskIndex.DUE, until=virtual_now()).end]
    assert due == []
    assert (await process.sweep()).examined == 0
    await asyncio.sleep(300)
    assert (await process.sweep()).recovered == 5


@virtual
async def test_tasks_that_fail_forever_hide_no_other() -> None:
    """Of 1,000, 150 are corrupt, and the reads of 150 never end.

    All others are recovered within four sweeps, and also those that become due meanwhile.
    """
    table = IndexedTable(seconds=0.002)
    await admit_due(table, 1000, shards=4)
    for place, row in table.rows.items():
        if place[1].endswith("|order") and place[1] < "t0150":
            row["Facts"] = "{"
    query_page = table.query

    async def query(partition: str, query: RowQuery) -> Any:
        if "t0150" <= query.first < "t0300":
            await asyncio.sleep(1e6)
        return await query_page(partition, query)

    table.query = query  # type: ignore[method-assign]
    process = Supervised(table, shards=4, recoveries=1000)
    recovered = 0
    for number in range(4):
        await process.admit(f"u{number}")
        began = virtual_now()
        report = await process.sweep()
        recovered += report.recovered
        assert virtual_now() - began < timedelta(seconds=240)
        await asyncio.sleep(30)
    assert recovered >= 700
    other = Supervised(table, shards=4)
    for number in range(300, 1000):
        assert (await other.record(f"t{number:04d}")).epoch >= 2
    for _ in range(2):
        await process.sweep()
    assert (await other.record("u0")).epoch >= 2


@virtual
async def test_sweep_without_time_left_continues_at_its_cursors() -> None:
    """Also in another process; the units that were not begun come first."""
    table = IndexedTable()
    await admit_due(table, 500, shards=8)
    table.seconds = 4
    examined: list[str] = []
    counts = []
    while len(set(examined)) < 500:
        process = Supervised(table, shards=8, recoveries=0)
        read = process.storage.read

        async def noted(task: str, read: Callable[[str], Awaitable[object]] = read) -> object:
            examined.append(task)
            return await read(task)

        process.storage.read = noted  # type: ignore[method-assign, assignment]
        report = await process.sweep()
        counts.append(report.examined)
        assert heartbeat(table).left == report.left
    assert 2 <= len(counts) <= 4
    assert min(counts) >= 100


@virtual
async def test_corrupt_row_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """In the log and in one alert, by all Supervisors; the other tasks are examined."""
    table = IndexedTable()
    process = await admit_due(table, 3)
    for number in range(2):
        table.rows["000", f"t000{number}|order"]["Facts"] = "{"
    table.write("000", [RowChange("insert", "!due|2000|t9", {}), RowChange("insert", "!send|alert|x", {})])
    other = Supervised(table)
    with caplog.at_level(logging.WARNING):
        for supervisor in (process, other, process, other):
            report = await supervisor.sweep()
            assert report.failed == 0
            assert len(report.corrupt) == 4
            await asyncio.sleep(11)
    assert caplog.text.count("t0000|order is corrupt") == 1
    alerts = [*process.sent, *other.sent]
    assert [alert.body["cause"] for alert in alerts] == ["corrupt rows"]
    assert len(alerts[0].body["rows"]) == 4  # type: ignore[arg-type]
    assert (await process.record("t0002")).epoch >= 2
    table.rows["000", "t0002|order"]["Facts"] = "{"
    await asyncio.sleep(100)
    await process.sweep()
    await asyncio.sleep(11)
    await process.sweep()
    assert [list(alert.body["rows"]) for alert in process.sent[-1:]] == [["t0002|order"]]  # type: ignore[call-overload]


@virtual
async def test_task_that_cannot_be_written_is_alerted_once() -> None:
    """The table rejects its rows in each sweep."""
    process = await admit_due(IndexedTable(), 1)

    async def change(task: str, *_: object, **_others: object) -> Applied:
        raise UnwritableRowsError(f"task {task}: HTTP 413")

    process.storage.change = change  # type: ignore[method-assign]
    for _ in range(3):
        await process.sweep()
        await asyncio.sleep(11)
    assert [list(alert.body["rows"]) for alert in process.sent] == [["t0000|task"]]  # type: ignore[call-overload]


@virtual
async def test_search_for_lost_chains_does_not_delay_due_tasks() -> None:
    """Steps wait behind eight gates in each shard, and each query takes a second."""
    table = IndexedTable(seconds=1)
    process = Supervised(table, shards=16)
    await process.admit("lost")
    for shard, gate in product(range(16), range(8)):
        key = gate_key(f"g{gate}", START, f"w{shard}")
        table.write(shard_name(shard), [RowChange("insert", key, {"OrderID": "w", "Count": 1})])
    await asyncio.sleep(40)
    assert (await process.sweep()).recovered == 1
    assert sorted(process.links) == [f"g{gate}" for gate in range(8)]


@virtual
async def test_corrupt_gate_is_named_and_corrupt_rows_of_the_supervisor_are_replaced() -> None:
    """The sweep starts at the beginning, and examines all tasks."""
    table = IndexedTable()
    process = await admit_due(table, 1)
    table.write("gates", [RowChange("insert", "card", {"Gate": "{"})])
    table.write(SUPERVISOR, [RowChange("insert", "sweep", {"Heartbeat": "{"})])
    table.write(SUPERVISOR, [RowChange("insert", "corrupt-rows", {"Known": "{"})])
    report = await process.sweep()
    assert (list(report.corrupt), report.recovered) == (["card"], 1)
    assert heartbeat(table).figures["recovered"] == 1


@pytest.mark.parametrize(
    "text", ["{", '{"at":"2026-01-01T00:00:00","backlog":{"messages":9,"size":9000000,"oldest_at":null}}']
)
@virtual
async def test_sweep_ignores_a_corrupt_measurement_of_the_intake(text: str) -> None:
    """The overdue task is recovered."""
    process = await admit_due(table := IndexedTable(), 1)
    table.write("intake", [RowChange("insert", "latest", {"Measurement": text})])
    bounds = IntakeBounds(timedelta(seconds=60), 1_000_000)
    assert (await sweep_once(process.supervisor, table, bounds, virtual_now)).recovered == 1


@virtual
async def test_task_is_resumed_when_its_version_is_deployed_again() -> None:
    """As it was submitted: other steps under the same version do not resume it."""
    table = IndexedTable()
    process = Supervised(table)
    await process.submit("t1", workflow())
    await process.submit("t2", workflow())
    await process.submit("t3", workflow(version=2))
    for task in ("t1", "t2", "t3"):
        await process.change(task, NOT_DEPLOYED)
    await process.change("t2", Suspended(reason="wait", by_operator=True))
    table.write("000", [RowChange("insert", "!suspended|w|one|t9", {})])
    for registry in (WorkflowRegistry([]), WorkflowRegistry([workflow(("a", "b"))])):
        report = await Supervised(table, registry=registry).sweep()
        assert (report.resumed, list(report.corrupt)) == (0, ["!suspended|w|one|t9"])
    report = await Supervised(table, registry=WorkflowRegistry([workflow()])).sweep()
    assert report.resumed == 1
    waits = [derive(await process.record(task)).waiting_for for task in ("t1", "t2", "t3")]
    assert waits == [WaitingFor.PICK_UP, WaitingFor.SUSPENDED, WaitingFor.SUSPENDED]


class _WithoutChild(WorkflowRegistry):
    """The registry of an instance that does not have the workflow `child` yet."""

    def find(self, name: str, version: int | None = None) -> Workflow[Any] | None:
        """Return a workflow."""
        return None if name == "child" else super().find(name, version)


def _request(_payload: Payload, _results: Results, _item: int = 0) -> dict[str, object]:
    return {}


def _with_items(*items: int) -> Workflow[Payload]:
    step = Step("a", for_each=lambda _: list(items), request=_request)
    return Workflow("w", payload=Payload, steps=[step])


_CHILD = Workflow("child", payload=Payload, steps=[Step("a", request=_request)])
_PARENT = Workflow("w", payload=Payload, steps=[WorkflowStep("c", workflow="child", request=_request)])


@pytest.mark.parametrize(
    ("submitted", "early", "deployed"),
    [
        (_PARENT, _WithoutChild([_PARENT, _CHILD]), [_PARENT, _CHILD]),
        (_with_items(1, 2), WorkflowRegistry([_with_items(1, 3)]), [_with_items(1, 2)]),
    ],
    ids=["child", "items"],
)
@virtual
async def test_task_is_not_resumed_before_its_child_and_its_items_are_deployed(
    submitted: Workflow[Payload], early: WorkflowRegistry, deployed: list[Workflow[Payload]]
) -> None:
    """Otherwise its run would suspend it again, with an alert in each sweep."""
    table = IndexedTable()
    await Supervised(table).submit("t1", submitted)
    await Supervised(table).change("t1", NOT_DEPLOYED)
    before = await Supervised(table).record("t1")
    other = Supervised(table, registry=early)
    for _ in range(3):
        assert (await other.sweep()).resumed == 0
    assert await other.record("t1") == before
    process = Supervised(table, registry=WorkflowRegistry(deployed))
    assert (await process.sweep()).resumed == 1
    assert (await process.record("t1")).suspension is None


@virtual
async def test_backlog_defers_tasks_that_were_not_picked_up() -> None:
    """They count no failure."""
    process = await admit_due(IndexedTable(), 3)
    report = await process.sweep(is_overloaded=True)
    record = await process.record("t0000")
    assert (report.examined, report.recovered, record.epoch, record.failures) == (3, 0, 1, 0)
    assert record.resume_at is not None


@virtual
async def test_deferred_tasks_are_not_examined() -> None:
    """They are due at the end of `defer_for`; a missing release chain is started for each gate."""
    table = IndexedTable()
    process = Supervised(table)
    spec = StepSpec(name="s", agent="card")
    for number in range(20):
        await process.admit(f"t{number}", replace(spec, agent=f"a{number % 2}"))
        await process.change(f"t{number}", StepDeferred(epoch=1, step="s"))
    await asyncio.sleep(60)
    report = await process.sweep()
    assert report.examined == 0
    assert process.links == ["a0", "a1"]


@virtual
async def test_no_deadline_is_decided_without_the_gates() -> None:
    """A sweep ends if the gates cannot be read."""
    table = IndexedTable()
    process = await admit_due(table, 1)
    reads = iter([False, True])
    table.read_fault = lambda: next(reads, False)
    with pytest.raises(TransientStorageError, match="gates not read"):
        await process.sweep()
    assert (await process.record("t0000")).epoch == 1


@virtual
async def test_process_that_ends_between_any_two_requests_of_a_sweep() -> None:
    """Or before the answer of one. The next Supervisor recovers, sends and resumes everything, once."""
    number, has_ended = 0, True
    while has_ended:
        number += 1
        table = IndexedTable(seconds=0.01)
        first = Supervised(table, registry=WorkflowRegistry([workflow()]))
        await first.submit("t1", workflow())
        await first.change("t1", NOT_DEPLOYED)
        await first.admit("t2", reply_to="replies")
        await first.admit("t3", *line(1, complete_within=300.0))
        await first.start("t3")
        await first.admit("t4", StepSpec(name="s", agent="card"))
        await first.change("t4", StepDeferred(epoch=1, step="s"))
        await asyncio.sleep(33)
        crashing = Supervised(ending_table(table, number), registry=WorkflowRegistry([workflow()]))
        sweep = asyncio.create_task(crashing.sweep())
        done, _ = await asyncio.wait([sweep], timeout=1)
        has_ended = not done
        sweep.cancel()
        second = Supervised(table, registry=WorkflowRegistry([workflow()]))
        await second.sweep()
        t1, t2, t3 = [await second.record(task) for task in ("t1", "t2", "t3")]
        assert t1.suspension is None
        assert (t2.epoch, t2.failures) == (2, 1)
        assert (t3.epoch, t3.failures) == (1, 0)
        ids = {message.id for message in [*crashing.sent, *second.sent]}
        assert sorted(name.rpartition(".")[2] for name in ids) == ["received", "suspended"]
        assert table.keys("!send") == []
        assert "card" in [*crashing.links, *second.links]
        assert heartbeat(table).left == {}
    assert number > 15


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"examined": 3}, logging.INFO),
        ({"failed": 1}, logging.WARNING),
        ({"left": {"due 000": None}}, logging.WARNING),
        ({"corrupt": {"t1|task": "no JSON"}}, logging.WARNING),
        (None, logging.ERROR),
    ],
)
async def test_sweep_is_logged_in_one_line(
    fields: dict[str, Any] | None, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Alert rules read its figures. A sweep that needs attention is a warning; one that fails is an error."""

    async def sweep() -> SweepReport:
        if fields is None:
            raise ConnectionError("no answer")
        return SweepReport(START, **fields)

    with caplog.at_level(logging.INFO, "functions"):
        await report_sweep("supervisor sweep", sweep)
    [record] = caplog.records
    assert record.levelno == level
    assert record.getMessage().startswith("supervisor sweep " + ("failed" if fields is None else "{"))
