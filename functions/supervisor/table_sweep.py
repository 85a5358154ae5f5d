"""The full sweep: compares the index with the tasks, and deletes old tasks and reservations without a task.

A sweep without time left continues at its cursors the next time. Times are UTC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from functions.messaging.intake_measurement import read_intake
from functions.storage.group_commits import Conflicted
from functions.storage.index_pages import every_page
from functions.storage.row_keys import ALL_TASKS, order_key, shard_name, sortable
from functions.storage.table_contract import RowChange
from functions.storage.table_maintenance import IndexRepair, delete_finished
from functions.storage.task_storage import TaskStorage
from functions.supervisor.sweep_progress import FULL_SWEEP, SupervisorRows, SweepReport, run_part

#: Time of a sweep, after which no further page is read.
_SWEEP_TIME = timedelta(seconds=180)
#: Shards that are compared at once; each one takes about 20 MB.
_COMPARED_AT_ONCE = 2
#: Shards in which rows are deleted at once.
_PURGED_AT_ONCE = 8
#: Tasks that are deleted before the time is checked again.
_PURGED_PAGE = 20


class TableSweep:
    """The full sweeps of one Supervisor.

    A finished task is deleted after `retention`, and a reservation without a task after `reserved_for`,
    unless an older order may still be in the queue.
    """

    def __init__(
        self,
        storage: TaskStorage,
        *,
        retention: timedelta,
        reserved_for: timedelta,
        now: Callable[[], datetime],
        window: int = 50_000,
    ) -> None:
        self._storage, self._retention, self._now = storage, retention, now
        self._reserved_for = reserved_for
        self._repair = IndexRepair(storage, window=window)
        self._rows = SupervisorRows(storage.table, now)

    async def run(self) -> SweepReport:
        """Sweep once, and write the heartbeat. Raises `TransientStorageError`."""
        parts = {
            "index": (self._compare, _COMPARED_AT_ONCE),
            "retention": (self._delete_finished, _PURGED_AT_ONCE),
            "reservations": (self._delete_reservations, _PURGED_AT_ONCE),
        }
        shards = [shard_name(shard) for shard in range(self._storage.shards)]
        report = await self._rows.begin(FULL_SWEEP, dict.fromkeys(parts, shards))
        ends_at = report.began_at + _SWEEP_TIME
        work = (
            run_part(
                part, partial(page, report), report, at_once=at_once, is_over=lambda: self._now() >= ends_at
            )
            for part, (page, at_once) in parts.items()
        )
        await asyncio.gather(*work)
        await self._rows.record(FULL_SWEEP, report)
        return report

    async def _compare(self, report: SweepReport, shard: str, cursor: str | None) -> str | None:
        """Compare the next window of tasks with their index rows."""
        if cursor is not None:  # a process that ends in a long window has made progress
            await self._rows.record(FULL_SWEEP, report)
        window = await self._repair.compare(int(shard), cursor)
        report.add_corrupt(window.corrupt)
        report.examined += window.tasks
        report.created += window.created
        report.deleted += window.deleted
        report.failed += window.failed
        return window.cursor

    async def _delete_finished(self, report: SweepReport, shard: str, cursor: str | None) -> str | None:
        """Delete the next tasks whose retention has ended."""
        before = self._now() - self._retention
        page = await delete_finished(self._storage, int(shard), before, cursor=cursor, most=_PURGED_PAGE)
        report.add_corrupt(page.corrupt)
        report.purged += page.deleted
        report.failed += page.failed
        return page.cursor

    async def _delete_reservations(self, report: SweepReport, shard: str, cursor: str | None) -> str | None:
        """Delete the next reservations that no order has followed, if the backlog of orders is known."""
        measured, before = await read_intake(self._storage.table), self._now() - self._reserved_for
        if measured is None or not measured.has_none_before(before, self._now()):
            return None
        query = replace(ALL_TASKS, beyond=cursor, having="Reserved")
        async for page in every_page(self._storage.table, shard, query):
            for row in page.rows:
                if str(row["Reserved"]) < sortable(before):
                    task = str(row["RowKey"]).partition("|")[0]
                    change = RowChange("delete", order_key(task), etag=str(row["odata.etag"]))
                    report.purged += not isinstance(await self._storage.commit(task, [change]), Conflicted)
            if page.rows and page.continuation is not None:
                return str(page.rows[-1]["RowKey"])
        return None
