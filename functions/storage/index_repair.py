"""The full sweep of the index: compares index rows with the tasks and repairs differences.

No other part finds a task whose index row is missing. The sweep continues at its cursor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from functions.storage.group_commits import Committed
from functions.storage.index_pages import listed_task
from functions.storage.record_rows import StoredTask, index_keys_of, repair
from functions.storage.row_keys import (
    END_OF_TASKS,
    FIRST_TASK,
    TaskIndex,
    index_range,
    shard_name,
    shard_of,
    task_in,
    task_key,
)
from functions.storage.table_contract import (
    KEYS,
    CorruptRowError,
    Row,
    RowChange,
    TransientStorageError,
    UnwritableRowsError,
)
from functions.storage.task_storage import TaskStorage

_log = logging.getLogger(__name__)

_INDEXES = (TaskIndex.DUE, TaskIndex.ERROR, TaskIndex.DONE, TaskIndex.SUSPENDED, TaskIndex.GATE)
#: Tasks that are compared at once, about 20 MB. All index rows of the shard are read for them.
_WINDOW = 50_000
_REPAIRS_AT_ONCE = 10
#: Tries of one repair while its task changes.
_MOST_TRIES = 10


@dataclass(slots=True)
class RepairedWindow:
    """The result for one window of tasks. `cursor` is its last task; None: it was the last window.

    `failed` counts tasks that changed all the time, or whose rows the service did not return or take.
    """

    cursor: str | None = None
    tasks: int = 0
    index_rows: int = 0
    created: int = 0
    deleted: int = 0
    failed: int = 0
    corrupt: list[CorruptRowError] = field(default_factory=list)


class IndexRepair:
    """Repairs the index rows by state and gate; rows of search keys and messages stay as they are."""

    def __init__(self, storage: TaskStorage, *, window: int = _WINDOW) -> None:
        self._storage = storage
        self._window = window

    async def compare(self, shard: int, cursor: str | None = None) -> RepairedWindow:
        """Compare the next tasks of a shard after `cursor`. Raises `TransientStorageError`."""
        result = RepairedWindow()
        expected = await self._expected(shard, cursor, result)
        suspects = await self._suspects(shard, cursor, expected, result)
        for task, keys in expected.items():
            if keys:
                suspects.setdefault(task, set())
        slots = asyncio.Semaphore(_REPAIRS_AT_ONCE)

        async def one(task: str, seen: set[str]) -> None:
            async with slots:
                await self._repair(task, seen, result)

        await asyncio.gather(*(one(task, seen) for task, seen in suspects.items()))
        return result

    async def _expected(self, shard: int, cursor: str | None, result: RepairedWindow) -> dict[str, set[str]]:
        """Return the keys of the index rows of each task in the window."""
        expected: dict[str, set[str]] = {}
        continuation: str | None = None
        while True:
            page = await self._storage.table.query(
                shard_name(shard),
                FIRST_TASK,
                END_OF_TASKS,
                beyond=None if cursor is None else task_key(cursor),
                most=min(1000, self._window),
                continuation=continuation,
                columns=(*KEYS, "Index", "Gates"),
                having="Index",
            )
            for row in page.rows:
                task = str(row["RowKey"]).partition("|")[0]
                result.tasks += 1
                try:
                    expected[task] = set(index_keys_of(row))
                except CorruptRowError as error:
                    result.corrupt.append(error)
            continuation = page.continuation
            if continuation is None:
                return expected
            if len(expected) >= self._window and page.rows:
                result.cursor = str(page.rows[-1]["RowKey"]).partition("|")[0]
                return expected

    async def _suspects(
        self, shard: int, cursor: str | None, expected: dict[str, set[str]], result: RepairedWindow
    ) -> dict[str, set[str]]:
        """Return the index rows in the window that no task expects, or that are corrupt, by task.

        The rows that are as expected are removed from `expected`.
        """
        suspects: dict[str, set[str]] = {}
        for index in _INDEXES:
            keys = index_range(index)
            continuation: str | None = None
            while True:
                page = await self._storage.table.query(
                    shard_name(shard), keys.first, keys.end, continuation=continuation
                )
                for row in page.rows:
                    key = str(row["RowKey"])
                    task = task_in(key)
                    if not _is_between(cursor, task, result.cursor):
                        continue
                    result.index_rows += 1
                    if key in expected.get(task, ()) and _is_sound(index, row):
                        expected[task].remove(key)
                    else:
                        suspects.setdefault(task, set()).add(key)
                continuation = page.continuation
                if continuation is None:
                    break
        return suspects

    async def _repair(self, task: str, seen: set[str], result: RepairedWindow) -> None:
        """Repair the index rows of one task, after another look at the task and at these rows."""
        try:
            for _ in range(_MOST_TRIES):
                stored = await self._storage.read(task)
                done = await (
                    self._delete_orphans(task, seen)
                    if stored is None
                    else self._repair_task(task, stored, seen)
                )
                if done is not None:
                    created, deleted = done
                    result.created += created
                    result.deleted += deleted
                    if created or deleted:
                        _log.warning("task %s: %d index rows created, %d deleted", task, created, deleted)
                    return
            result.failed += 1
        except CorruptRowError as error:
            result.corrupt.append(error)
        except (TransientStorageError, UnwritableRowsError) as error:
            _log.warning("task %s: its index rows are not repaired: %s", task, error)
            result.failed += 1

    async def _repair_task(self, task: str, stored: StoredTask, seen: set[str]) -> tuple[int, int] | None:
        """Return the numbers of created and deleted rows, None if the task changed at this moment."""
        right = stored.index_keys
        now = await self._read(task, [*right, *(key for key in seen if key not in right)])
        wrong = [key for key in now if key not in right]
        missing = [key for key in right if key not in now or not _is_sound(_index_of(key), now[key])]
        if not wrong and not missing:
            return 0, 0
        changes, _ = repair(stored, self._storage.new_write(), wrong=wrong, missing=missing)
        done = await self._storage.commit(task, changes)
        return (len(missing), len(wrong)) if isinstance(done, Committed) else None

    async def _delete_orphans(self, task: str, seen: set[str]) -> tuple[int, int] | None:
        """Delete index rows without a task, if they are still as they were read."""
        now = await self._read(task, sorted(seen))
        if not now:
            return 0, 0
        changes = [RowChange("delete", key, etag=str(row["odata.etag"])) for key, row in now.items()]
        done = await self._storage.commit(task, changes)
        return (0, len(changes)) if isinstance(done, Committed) else None

    async def _read(self, task: str, keys: Sequence[str]) -> dict[str, Row]:
        """Return the rows that exist, by key."""
        partition = shard_of(task, self._storage.shards)
        rows = await asyncio.gather(*(self._storage.table.read(partition, key) for key in keys))
        return {key: row for key, row in zip(keys, rows, strict=True) if row is not None}


def _is_between(cursor: str | None, task: str, last: str | None) -> bool:
    """Return whether a task belongs to the window, by the place of its rows in the table."""
    key = task_key(task)
    return (cursor is None or task_key(cursor) < key) and (last is None or key <= task_key(last))


def _index_of(key: str) -> TaskIndex:
    return TaskIndex(key.partition("|")[0])


def _is_sound(index: TaskIndex, row: Row) -> bool:
    if index is TaskIndex.GATE:
        return row.get("OrderID") == task_in(str(row["RowKey"]))
    try:
        listed_task(row)
    except CorruptRowError:
        return False
    return True
