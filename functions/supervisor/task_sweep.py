"""The sweep: examines due tasks, resumes tasks whose version is deployed again, and sends unsent messages.

The Supervisor calls no Agent; it records events, and Schedulers carry them out. It calls two functions of a
workflow: `for_each` before it resumes a task, and `output` if the end of an optional step completes a task.
A crash anywhere leaves a task due, and the next sweep finds it. Times are UTC.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import batched

from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.core.derive import derive
from functions.core.plan import check_deployed
from functions.core.record import Message, NotDeployedError
from functions.core.task_events import Resumed
from functions.messaging.intake_measurement import IntakeBounds, read_intake
from functions.storage.gate_releases import GateReleases
from functions.storage.gates import Gates
from functions.storage.index_pages import KEYS, read_entries
from functions.storage.record_rows import decoded
from functions.storage.row_keys import TaskIndex, index_range, shard_name, task_in, task_key, time_in
from functions.storage.table_contract import CorruptRowError, Row, RowQuery, Table, UnwritableRowsError
from functions.storage.task_storage import TaskStorage
from functions.supervisor.outbox_relay import OutboxRelay
from functions.supervisor.sweep_progress import (
    SUPERVISOR,
    TASK_SWEEP,
    Page,
    SupervisorRows,
    SweepReport,
    run_part,
)

_log = logging.getLogger(__name__)

#: Time of a sweep, after which no further page is read.
_SWEEP_TIME = timedelta(seconds=120)
#: Tasks of one page.
_PAGE = 32
#: Shards that are swept at once.
_SHARDS_AT_ONCE = 4
#: Time for the record of the event of one task.
_EVENT_TIME = timedelta(seconds=10)

#: The query of the tasks whose version is not deployed. Keys of tasks that operators suspended have `~`.
_NOT_DEPLOYED = RowQuery(f"{TaskIndex.SUSPENDED}|", f"{TaskIndex.SUSPENDED}|~", columns=KEYS)

type _TaskWork = Callable[[str], Awaitable[None]]


class TaskSweep:
    """The sweeps of one Supervisor, which recover at most `recoveries` tasks each.

    `registry` has the workflows that are deployed. `send` sends a message of the outbox, and raises an error
    if it may not be sent.
    """

    def __init__(
        self,
        storage: TaskStorage,
        *,
        gates: Gates,
        registry: WorkflowRegistry,
        send: Callable[[Message], Awaitable[None]],
        now: Callable[[], datetime],
        recoveries: int = 100,
    ) -> None:
        self._storage, self._gates, self._registry = storage, gates, registry
        self._send, self._now, self._recoveries = send, now, recoveries
        self._rows = SupervisorRows(storage.table, now)

    async def run(self, *, is_overloaded: bool = False) -> SweepReport:
        """Sweep once, and write the heartbeat. With `is_overloaded`, the backlog of submissions is old.

        Raises `TransientStorageError` if the gates cannot be read: no deadline is decided without the holds.
        """
        shards = [shard_name(shard) for shard in range(self._storage.shards)]
        outboxes = [*shards, self._gates.partition, SUPERVISOR]
        parts = {"release": ["chains"], "due": shards, "suspended": shards, "outbox": outboxes}
        report = await self._rows.begin(TASK_SWEEP, parts)
        await self._gates.refresh(is_forced=True)
        report.corrupt |= self._gates.corrupt
        relay = OutboxRelay(self._storage.table, report, send=self._send, now=self._now)
        recoveries = asyncio.Semaphore(self._recoveries)
        examine = partial(self._examine, report, recoveries, is_overloaded=is_overloaded)
        pages: dict[str, Page] = {
            "release": lambda *_: GateReleases(self._gates).start_missing_chains(),
            "due": partial(self._examine_page, report, examine),
            "suspended": partial(self._resume_page, report),
            "outbox": relay.send_page,
        }
        ends_at = report.began_at + _SWEEP_TIME
        work = (
            run_part(part, page, report, at_once=_SHARDS_AT_ONCE, is_over=lambda: self._now() >= ends_at)
            for part, page in pages.items()
        )
        await asyncio.gather(*work)
        await self._rows.record(TASK_SWEEP, report)
        return report

    async def _examine_page(
        self, report: SweepReport, examine: _TaskWork, shard: str, cursor: str | None
    ) -> str | None:
        """Examine the next due tasks of a shard, the oldest first, and return the next cursor."""
        query = replace(
            index_range(TaskIndex.DUE, until=self._now()), beyond=cursor, most=_PAGE, columns=KEYS
        )
        page = await read_entries(self._storage.table, shard, query, due_task)
        report.add_corrupt(page.corrupt)
        await _for_each(page.entries, examine, report)
        return page.cursor

    async def _examine(
        self, report: SweepReport, recoveries: asyncio.Semaphore, task: str, *, is_overloaded: bool
    ) -> None:
        """Record that the time of a task has passed, or move the index row of a task that is due later."""
        stored = await self._storage.read(task)
        report.examined += 1
        if stored is None:
            return  # the full sweep deletes its index row
        before = stored.record
        due_at, now = derive(before).due_at, self._now()
        if due_at is None or due_at > now:
            await self._storage.move_index(stored)
            report.moved += 1
            return
        report.late_seconds = max(report.late_seconds, int((now - due_at).total_seconds()))
        may_recover = not recoveries.locked()
        if may_recover:
            await recoveries.acquire()
        is_recovered = False
        try:
            due = await self._gates.judge(before, may_recover=may_recover)
            due = replace(due, is_overloaded=is_overloaded)
            applied = await self._storage.change(task, due, until=self._now() + _EVENT_TIME)
            is_recovered = applied.rejection is None and applied.record.epoch > before.epoch
            report.recovered += is_recovered
        finally:
            if may_recover and not is_recovered:
                recoveries.release()

    async def _resume_page(self, report: SweepReport, shard: str, cursor: str | None) -> str | None:
        """Resume the next suspended tasks of a shard whose version is deployed; return the next cursor."""
        query = replace(_NOT_DEPLOYED, beyond=cursor)
        page = await read_entries(self._storage.table, shard, query, _suspended)
        report.add_corrupt(page.corrupt)
        found = self._registry.find
        tasks = [task for task, name, version in page.entries if found(name, version) is not None]
        await _for_each(tasks, partial(self._resume, report), report)
        return page.cursor

    async def _resume(self, report: SweepReport, task: str) -> None:
        record = await self._storage.load(task)
        if record is None:
            return
        try:
            check_deployed(record, self._registry)
        except NotDeployedError:
            return
        applied = await self._storage.change(task, Resumed(), until=self._now() + _EVENT_TIME)
        report.resumed += applied.rejection is None


async def sweep_once(
    sweep: TaskSweep, table: Table, bounds: IntakeBounds, now: Callable[[], datetime]
) -> SweepReport:
    """Sweep, and wait longer for runs that have not begun while the backlog of submissions is large.

    Raises `StorageError`.
    """
    try:
        measurement = await read_intake(table)
    except CorruptRowError as error:  # the next measurement replaces it
        measurement = None
        _log.warning("the measurement of the backlog is not used: %s", error)
    is_overloaded = measurement is not None and measurement.retry_after(bounds, now()) > 0
    return await sweep.run(is_overloaded=is_overloaded)


async def _for_each(tasks: Sequence[str], work: _TaskWork, report: SweepReport) -> None:
    """Do the work on tasks, eight at once. An error of one task is counted, and the others continue."""

    async def one(task: str) -> None:
        try:
            async with asyncio.timeout(20):
                await work(task)
        except UnwritableRowsError as error:  # permanent, so it is alerted like a corrupt row
            report.add_corrupt([CorruptRowError(task_key(task), str(error))])
        except Exception as error:  # noqa: BLE001 - the other tasks continue
            report.add_failure(f"task {task}", error)

    for some in batched(tasks, 8, strict=False):
        await asyncio.gather(*map(one, some))


def due_task(row: Row) -> str:
    """Return the task of an index row, from its key only. Raises `CorruptRowError`."""
    key = str(row["RowKey"])
    decoded(key, lambda: time_in(key))
    return task_in(key)


def _suspended(row: Row) -> tuple[str, str, int]:
    """Return task, workflow and version from the key of an index row. Raises `CorruptRowError`."""
    key = str(row["RowKey"])

    def decode() -> tuple[str, str, int]:
        _, workflow, version, task = key.split("|")
        return task, workflow, int(version)

    return decoded(key, decode)
