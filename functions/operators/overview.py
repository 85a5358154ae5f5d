"""The state of all parts on the first page of the console. Times are UTC.

Tasks are counted by their index rows. Only tasks whose rows are overdue are read, because the row of a task
that is due later stays as it is until a sweep.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.derive import derive
from functions.core.gate_rules import Gate
from functions.http.application import Cached
from functions.messaging.intake_measurement import IntakeBounds, IntakeMeasurement, read_intake
from functions.messaging.queue_depths import QueueDepth
from functions.operators.gate_routes import GateView
from functions.operators.minute_rows import MinuteCounts, last_hour
from functions.operators.task_list import ROWS_PER_REQUEST, CorruptRow
from functions.storage.gates import Gates
from functions.storage.index_pages import ListedTask, listed_task, read_entries
from functions.storage.record_rows import decoded
from functions.storage.row_keys import TaskIndex, after_prefix, index_range, shard_name
from functions.storage.table_contract import CorruptRowError, Row
from functions.storage.task_storage import TaskStorage
from functions.supervisor.sweep_progress import FULL_SWEEP, TASK_SWEEP, Heartbeat, SupervisorRows

#: Overdue tasks that are read. The index rows of further ones count as they are.
_MOST_READ = 100
#: Corrupt rows that the overview names.
_MOST_CORRUPT = 50
#: Seconds after which the overview, the last hour and the depths of the queues are read again. A read of the
#: depths transfers the bodies of messages.
_OVERVIEW_SECONDS, _HOUR_SECONDS, _DEPTHS_SECONDS = 2, 15, 5


class VersionTasks(BaseModel):
    """The tasks of one version of a workflow that need the Scheduler, the Supervisor or an operator.

    A version without any can be removed.
    """

    workflow: str
    version: int
    deployed: bool
    under_way: int = 0
    overdue: int = 0
    suspended: int = 0
    in_error: int = 0


class Count(BaseModel):
    """A count of the rows that one request for each shard returns; `more`: there are further ones."""

    count: int
    more: bool = False


class DeferredGate(GateView):
    """A gate, and the tasks that wait behind it, the first one since `deferred_since`."""

    deferred: Count
    deferred_since: datetime | None


class IntakeView(BaseModel):
    """The backlog of submissions at one time; new orders are rejected for `retry_after` seconds (0: none)."""

    at: datetime
    messages: int
    size: int
    oldest_at: datetime | None
    retry_after: int


class Overview(BaseModel):
    """The state of all parts at one time.

    `last_hour` has the 60 complete minutes before `at`. Processes write their counts some seconds after a
    minute, so the newest one may lack some. `sweep` and `full_sweep` are the last heartbeats of the
    Supervisor, and `intake` is its last measurement, null before the first one. `corrupt` are rows that
    cannot be decoded; they are in no count.
    """

    at: datetime
    under_way: Count
    overdue: Count
    suspended: Count
    in_error: Count
    last_hour: list[MinuteCounts]
    versions: list[VersionTasks]
    sweep: Heartbeat | None
    full_sweep: Heartbeat | None
    gates: list[DeferredGate]
    intake: IntakeView | None
    queues: list[QueueDepth]
    corrupt: list[CorruptRow]


class OverviewReader:
    """Reads the overview with a bounded number of requests.

    `depths` returns the depths of the queues, `now` the time.
    """

    def __init__(
        self,
        storage: TaskStorage,
        gates: Gates,
        registry: WorkflowRegistry,
        *,
        depths: Callable[[], Coroutine[Any, Any, Sequence[QueueDepth]]],
        bounds: IntakeBounds,
        now: Callable[[], datetime],
    ) -> None:
        self._storage, self._gates, self._registry = storage, gates, registry
        self._bounds, self._now = bounds, now
        self._heartbeats = SupervisorRows(storage.table, now)
        self._depths = Cached(depths, _DEPTHS_SECONDS)
        self._hour = Cached(lambda: last_hour(storage.table, now()), _HOUR_SECONDS)
        self._overview = Cached(self._read, _OVERVIEW_SECONDS)

    async def read(self) -> Overview:
        """Return the overview, at most 2 seconds old. Raises `TransientStorageError`."""
        return await self._overview.get()

    async def _read(self) -> Overview:
        now, corrupt = self._now(), _CorruptRows()
        heartbeat = self._heartbeats.heartbeat
        try:
            async with asyncio.TaskGroup() as group:
                under_way = group.create_task(self._entries(TaskIndex.DUE, corrupt))
                suspended = group.create_task(self._entries(TaskIndex.SUSPENDED, corrupt))
                in_error = group.create_task(self._entries(TaskIndex.ERROR, corrupt))
                sweep = group.create_task(corrupt.skipped(heartbeat(TASK_SWEEP)))
                full_sweep = group.create_task(corrupt.skipped(heartbeat(FULL_SWEEP)))
                intake = group.create_task(corrupt.skipped(read_intake(self._storage.table)))
                gates = group.create_task(self._read_gates(corrupt))
                hour = group.create_task(self._hour.get())
                queues = group.create_task(self._depths.get())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        overdue = await self._overdue(under_way.result(), now, corrupt)
        lists = {
            "under_way": under_way.result(),
            "overdue": overdue,
            "suspended": suspended.result(),
            "in_error": in_error.result(),
        }
        tasks = [(name, task) for name, entries in lists.items() for task in entries.tasks]
        measured = intake.result()
        return Overview(
            at=now,
            under_way=under_way.result().count,
            overdue=overdue.count,
            suspended=suspended.result().count,
            in_error=in_error.result().count,
            last_hour=hour.result(),
            versions=_by_version(tasks, self._registry),
            sweep=sweep.result(),
            full_sweep=full_sweep.result(),
            gates=gates.result(),
            intake=None if measured is None else self._intake(measured, now),
            queues=list(queues.result()),
            corrupt=[CorruptRow.model_validate(error) for error in corrupt.errors[:_MOST_CORRUPT]],
        )

    def _intake(self, measured: IntakeMeasurement, now: datetime) -> IntakeView:
        seconds = measured.retry_after(self._bounds, now)
        return IntakeView(at=measured.at, retry_after=seconds, **asdict(measured.backlog))

    async def _entries(self, index: TaskIndex, corrupt: _CorruptRows) -> _Entries:
        """Return the tasks of the first rows of an index in each shard."""
        query = replace(index_range(index), most=ROWS_PER_REQUEST)
        shards = map(shard_name, range(self._storage.shards))
        read = (read_entries(self._storage.table, shard, query, listed_task) for shard in shards)
        pages = await asyncio.gather(*read)
        corrupt.errors += [error for page in pages for error in page.corrupt]
        tasks = [entry for page in pages for entry in page.entries]
        return _Entries(tasks, more=any(page.cursor is not None for page in pages))

    async def _overdue(self, due: _Entries, now: datetime, corrupt: _CorruptRows) -> _Entries:
        """Return the overdue tasks among those under way."""
        rows = [(task.at, task.task, task) for task in due.tasks if task.at is not None and task.at <= now]
        listed = [task for *_, task in sorted(rows, key=lambda row: row[:2])]
        read = (corrupt.skipped(self._storage.load(each.task)) for each in listed[:_MOST_READ])
        times = [None if record is None else derive(record).due_at for record in await asyncio.gather(*read)]
        overdue = [
            task for task, due_at in zip(listed, times, strict=False) if due_at is not None and due_at <= now
        ]
        # Rows are in the order of time: no row is due after one that is not.
        return _Entries([*overdue, *listed[_MOST_READ:]], more=due.more and len(listed) == len(due.tasks))

    async def _read_gates(self, corrupt: _CorruptRows) -> list[DeferredGate]:
        """Return the gates of the deployed workflows, those with a row, and those behind which tasks wait."""
        waiting: defaultdict[str, list[datetime]] = defaultdict(list)
        unread: set[str] = set()
        shards = map(shard_name, range(self._storage.shards))
        await asyncio.gather(*(self._read_waiting(shard, waiting, unread, corrupt) for shard in shards))
        gates = await self._gates.refresh(is_forced=True)
        corrupt.errors += [CorruptRowError(key, reason) for key, reason in self._gates.corrupt.items()]
        deployed = {spec.gate for workflow in self._registry for spec in workflow.specs if spec.gate}
        return [
            DeferredGate(
                **dict(GateView.model_validate(gates.get(name) or Gate(name=name))),
                deferred=Count(count=len(waiting[name]), more=name in unread),
                deferred_since=min(waiting[name], default=None),
            )
            for name in sorted({*gates, *waiting, *deployed})
        ]

    async def _read_waiting(
        self, shard: str, waiting: defaultdict[str, list[datetime]], unread: set[str], corrupt: _CorruptRows
    ) -> None:
        """Add the times since which tasks of a shard wait, by gate, and the gates with `unread` rows."""
        query = replace(index_range(TaskIndex.GATE), most=ROWS_PER_REQUEST)
        while True:
            page = await read_entries(self._storage.table, shard, query, _gate_row)
            corrupt.errors += page.corrupt
            for gate, since in page.entries:
                waiting[gate].append(since)
            if page.cursor is None:
                return
            gate = page.cursor.split("|")[1]
            unread.add(gate)
            query = replace(query, first=after_prefix(f"{TaskIndex.GATE}|{gate}|"))


class _CorruptRows:
    """The corrupt rows of one read."""

    def __init__(self) -> None:
        self.errors: list[CorruptRowError] = []

    async def skipped[ValueT](self, read: Awaitable[ValueT]) -> ValueT | None:
        """Return a value, or None if its row is corrupt."""
        try:
            return await read
        except CorruptRowError as error:
            self.errors.append(error)
            return None


@dataclass(frozen=True, slots=True)
class _Entries:
    tasks: Sequence[ListedTask]
    more: bool

    @property
    def count(self) -> Count:
        return Count(count=len(self.tasks), more=self.more)


def _gate_row(row: Row) -> tuple[str, datetime]:
    """Return the gate and the time of a task that waits behind the gate. Raises `CorruptRowError`."""
    key, parts = str(row["RowKey"]), str(row["RowKey"]).split("|")
    return decoded(key, lambda: (parts[1], datetime.fromisoformat(parts[2]).astimezone(UTC)))


def _by_version(
    tasks: Iterable[tuple[str, ListedTask]], deployed: Iterable[Workflow[BaseModel]]
) -> list[VersionTasks]:
    """Return each version that is deployed or needed."""
    here = {(workflow.name, workflow.version) for workflow in deployed}
    counts: dict[tuple[str, int], Counter[str]] = {version: Counter() for version in here}
    for name, task in tasks:
        counts.setdefault((task.workflow, task.version), Counter())[name] += 1
    return [
        VersionTasks(
            workflow=name, version=version, deployed=(name, version) in here, **counts[name, version]
        )
        for name, version in sorted(counts)
    ]
