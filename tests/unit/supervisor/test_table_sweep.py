"""The full sweep: index repair and retention, by cursors."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from functions.storage.record_rows import joined
from functions.storage.table_contract import StorageError, TransientStorageError
from functions.storage.table_maintenance import delete_finished
from functions.supervisor.sweep_progress import _HEARTBEAT, SUPERVISOR, SupervisorRows, SweepReport
from functions.supervisor.table_sweep import TableSweep
from tests.fakes.simulated_table import SimulatedTable
from tests.fakes.storage_process import StorageProcess, line, virtual_now
from tests.unit.storage.virtual import virtual


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
async def test_tasks_that_fail_are_counted_by_both_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two in the comparison, three in the retention."""
    process = await filled(SimulatedTable(), 1)
    compare = process.full._repair.compare

    async def failing_compare(*place: Any) -> Any:
        return replace(await compare(*place), failed=2)

    async def failing_delete(*place: Any, **options: Any) -> Any:
        return replace(await delete_finished(*place, **options), failed=3)

    process.full._repair.compare = failing_compare  # type: ignore[method-assign, assignment]
    monkeypatch.setattr("functions.supervisor.table_sweep.delete_finished", failing_delete)
    assert (await process.full.run()).failed == 5


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
async def test_shard_that_fails_hides_no_other() -> None:
    """It is counted, and comes first in the next run."""
    table = SimulatedTable()
    process = await filled(table, 30, shards=3)
    compare = process.full._repair.compare

    async def failing(shard: int, cursor: str | None = None) -> object:
        if shard == 0:
            raise TransientStorageError("it does not answer")
        return await compare(shard, cursor)

    process.full._repair.compare = failing  # type: ignore[method-assign, assignment]
    for _ in range(2):
        report = await process.full.run()
        assert (report.failed, report.left) == (1, {"index 000": None})
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
    rows, units = SupervisorRows(table, virtual_now), [f"index {shard:03d}" for shard in range(768)]
    report = await rows.begin("sweep", units)
    report.left = dict.fromkeys(units, "x" * 150)
    await rows.record("sweep", report)
    assert (await rows.begin("sweep", units)).left == report.left
