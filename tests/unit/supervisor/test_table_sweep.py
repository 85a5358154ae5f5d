"""The full sweep: index repair, retention, and reservations that no order has followed, by cursors."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.core.rules import admit
from functions.messaging.intake_measurement import record_intake
from functions.messaging.message_format import SubmissionMessage
from functions.messaging.queue_depths import Backlog
from functions.messaging.reservations import IdRecord, find_reservation, reject_reservation
from functions.messaging.reservations import reserve as reserve_id
from functions.storage.record_rows import joined
from functions.storage.table_contract import RowPage, RowQuery, StorageError, TransientStorageError
from functions.storage.table_maintenance import delete_finished
from functions.supervisor.sweep_progress import _HEARTBEAT, SUPERVISOR, SupervisorRows, SweepReport
from functions.supervisor.table_sweep import TableSweep
from tests.fakes.simulated_table import SimulatedTable
from tests.fakes.storage_process import StorageProcess, line, order, virtual_now
from tests.unit.storage.virtual import virtual

HOUR = 3600


class Maintained(StorageProcess):
    """A process with full sweeps; finished tasks are deleted after an hour."""

    def __init__(self, table: SimulatedTable, *, shards: int = 1, window: int = 50_000) -> None:
        super().__init__(table, shards=shards)
        self.full = TableSweep(
            self.storage,
            retention=timedelta(hours=1),
            reserved_for=timedelta(hours=48),
            now=virtual_now,
            window=window,
        )


async def filled(table: SimulatedTable, count: int, *, shards: int = 1, window: int = 50_000) -> Maintained:
    """Return a process after some tasks were admitted."""
    process = Maintained(table, shards=shards, window=window)
    for number in range(count):
        await process.admit(f"t{number:03d}", *line(1))
    return process


@virtual
async def test_index_is_repaired_and_old_tasks_are_deleted() -> None:
    """Young and open tasks stay."""
    table = SimulatedTable()
    process = await filled(table, 6, shards=2)
    for number in range(3):
        await process.process(f"t{number:03d}")
    await asyncio.sleep(3590)
    await process.process("t003")
    await asyncio.sleep(11)
    [missing] = [key for key in table.keys("!due") if key.endswith("t005")]
    [place] = [place for place in table.rows if place[1] == missing]
    del table.rows[place]
    report = await process.full.run()
    assert (report.created, report.purged, report.failed) == (1, 3, 0)
    assert sorted({key[:4] for key in table.keys("t")}) == ["t003", "t004", "t005"]
    assert missing in table.keys("!due")
    beat = _HEARTBEAT.validate_json(joined(table.rows[SUPERVISOR, "full sweep"], "Heartbeat") or "")
    assert (beat.figures, beat.left) == (report.figures, {})
    assert (await process.full.run()).figures.keys() == {"examined"}


@virtual
async def test_sweep_without_time_left_is_continued_the_next_time() -> None:
    """Both parts make progress in each run, and no task is compared twice before all were."""
    table = SimulatedTable()
    process = await filled(table, 60, shards=2, window=4)
    for number in range(60):
        await process.process(f"t{number:03d}")
    await process.admit("open", *line(1))
    await asyncio.sleep(3700)
    table.seconds = 2
    examined, purged, runs = 0, 0, 0
    while True:
        runs += 1
        report = await Maintained(table, shards=2, window=4).full.run()
        examined, purged = examined + report.examined, purged + report.purged
        assert report.purged or report.examined
        if runs > 30 or purged == 60:
            break
    assert 1 < runs <= 30
    assert purged == 60
    assert {key[:4] for key in table.keys("t")} == set()


@virtual
async def test_progress_within_a_long_sweep_survives_the_end_of_the_process() -> None:
    """The row is written before each further window."""
    table = SimulatedTable()
    process = await filled(table, 40, window=4)
    table.seconds = 1
    run = asyncio.create_task(process.full.run())
    await asyncio.sleep(60)
    run.cancel()
    beat = _HEARTBEAT.validate_json(joined(table.rows[SUPERVISOR, "full sweep"], "Heartbeat") or "")
    cursor = beat.left["index 000"]
    assert cursor is not None
    assert cursor > "t003"


@virtual
async def test_shard_that_fails_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted, as are the tasks that fail in both parts, and comes first in the next run."""
    table = SimulatedTable()
    process = await filled(table, 30, shards=3)
    compare = process.full._repair.compare

    async def failing(shard: int, cursor: str | None = None) -> object:
        if shard == 0:
            raise TransientStorageError("it does not answer")
        return replace(await compare(shard, cursor), failed=10)

    async def failing_delete(*place: Any, **options: Any) -> object:
        return replace(await delete_finished(*place, **options), failed=100)

    process.full._repair.compare = failing  # type: ignore[method-assign, assignment]
    monkeypatch.setattr("functions.supervisor.table_sweep.delete_finished", failing_delete)
    for _ in range(2):
        report = await process.full.run()
        assert (report.failed, report.left) == (321, {"index 000": None})
        assert 0 < report.examined < 30


@virtual
async def test_corrupt_task_is_named_and_the_heartbeat_may_fail() -> None:
    """A refused heartbeat is an error of the sweep."""
    table = SimulatedTable()
    process = await filled(table, 2)
    table.rows["000", "t000|task"]["Index"] = 7
    report = await process.full.run()
    assert list(report.corrupt) == ["t000|task"]
    assert len(table.keys("!send|alert|corrupt.")) == 1
    await process.full.run()
    assert len(table.keys("!send|alert|corrupt.")) == 1
    table.names_rows = False
    process.full._rows._now = lambda: (_ for _ in ()).throw(StorageError("no clock"))
    with pytest.raises(StorageError):
        await process.full.run()


@virtual
async def test_corrupt_rows_that_the_list_does_not_keep_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The list keeps 500."""
    report = SweepReport(virtual_now(), corrupt={f"t{number:03d}|task": "no JSON" for number in range(501)})
    await SupervisorRows(SimulatedTable(), virtual_now).record("sweep", report)
    assert "t499|task is corrupt" in caplog.text
    assert "further corrupt rows are skipped: t500|task" in caplog.text


@virtual
async def test_cursors_of_all_shards_fit_into_the_heartbeat() -> None:
    """A property holds 64 KiB."""
    table = SimulatedTable()
    rows, parts = SupervisorRows(table, virtual_now), {"index": [f"{shard:03d}" for shard in range(768)]}
    report = await rows.begin("sweep", parts)
    report.left = dict.fromkeys(report.left, "x" * 150)
    await rows.record("sweep", report)
    assert (await rows.begin("sweep", parts)).left == report.left


# Reservations


def message(task: str) -> SubmissionMessage:
    """Return an order that is submitted now."""
    return SubmissionMessage(
        schema_version=1, task_id=task, workflow="w", payload={}, submitter="me", submitted_at=virtual_now()
    )


async def reserve(process: Maintained, *tasks: str) -> list[IdRecord]:
    """Reserve ids."""
    return [await reserve_id(process.storage, message(task)) for task in tasks]


async def reject(process: Maintained, reserved: IdRecord) -> None:
    """Reject the order of the reservation of `t1`."""
    rejected = message("t1").model_copy(update={"reservation": reserved.etag})
    await reject_reservation(process.storage, rejected, "why")


async def measure(process: Maintained, oldest_at: datetime | None = None) -> None:
    """Measure a queue, which is empty or has an oldest message."""
    await record_intake(process.storage.table, Backlog(0, 0, oldest_at), virtual_now())


async def sweep(process: Maintained, oldest_at: datetime | None = None) -> list[str]:
    """Measure the queue, sweep, and return the tasks that have rows."""
    await measure(process, oldest_at)
    assert (await process.full.run()).failed == 0
    assert isinstance(process.storage.table, SimulatedTable)
    return [key.partition("|")[0] for key in process.storage.table.keys("t")]


@virtual
async def test_reservation_without_a_task_is_deleted_after_its_time() -> None:
    """Not before, and no younger one. The message of a rejected order stays in `Rejected`."""
    process = Maintained(SimulatedTable(), shards=2)
    [rejected, _] = await reserve(process, "t1", "t2")
    await reject(process, rejected)
    await asyncio.sleep(HOUR)
    await reserve(process, "t3")
    await asyncio.sleep(47 * HOUR - 1)
    assert await sweep(process) == ["t1", "t2", "t3"]
    await asyncio.sleep(2)
    await measure(process)
    assert (await process.full.run()).purged == 2
    assert await sweep(process) == ["t3"]


@virtual
async def test_reservation_stays_while_its_message_may_be_in_the_queue() -> None:
    """While an older message waits, or the measurement is old or missing."""
    process = Maintained(SimulatedTable())
    await reserve(process, "t1")
    reserved_at = virtual_now()
    await asyncio.sleep(48 * HOUR + 1)
    assert (await process.full.run()).purged == 0
    assert await sweep(process, reserved_at) == ["t1"]
    await measure(process)
    await asyncio.sleep(181)
    assert (await process.full.run()).purged == 0
    assert await sweep(process, virtual_now() - timedelta(hours=47)) == []


@pytest.mark.parametrize("is_admitted", [True, False])
@virtual
async def test_reservation_that_changes_at_this_moment_stays(*, is_admitted: bool) -> None:
    """Its order is recorded, or another order reserves the id after a rejection."""
    table = SimulatedTable()
    process = Maintained(table)
    [reserved] = await reserve(process, "t1")
    query = table.query
    if not is_admitted:
        await reject(process, reserved)
    await asyncio.sleep(48 * HOUR + 1)

    async def then_change(partition: str, asked: RowQuery) -> RowPage:
        page = await query(partition, asked)
        if asked.having == "Reserved":
            table.query = query  # type: ignore[method-assign]
            if is_admitted:
                record = admit(order("t1"), virtual_now(), process.settings)
                await process.storage.admit(record, reserved=reserved.etag)
            else:
                await reserve(process, "t1")
        return page

    table.query = then_change  # type: ignore[method-assign, assignment]
    assert set(await sweep(process)) == {"t1"}
    assert table.query == query
    assert (await find_reservation(process.storage, "t1") or reserved).is_admitted is is_admitted


@virtual
async def test_many_reservations_are_deleted_page_by_page() -> None:
    """Between tasks, whose rows stay. A sweep without time left continues at its cursor."""
    table = SimulatedTable(page=7)
    process = Maintained(table)
    await reserve(process, *(f"t{number:03d}" for number in range(100)))
    await asyncio.sleep(47 * HOUR)
    for number in range(100, 130):
        await process.admit(f"t{number:03d}")
    await asyncio.sleep(HOUR + 1)
    table.seconds, sweeps = 5.0, 1
    while len({*await sweep(process)}) > 30:
        sweeps += 1
    assert 2 < sweeps < 20
    tasks = {key.partition("|")[0] for key in table.keys("t")}
    assert tasks == {f"t{number:03d}" for number in range(100, 130)}
