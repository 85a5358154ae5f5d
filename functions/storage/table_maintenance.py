"""Maintenance of the table: the full sweep of the index, and the deletion of old tasks.

Both continue at a cursor, so a run that is cut short has made progress, and a task that fails hides no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import batched

from functions.storage import row_keys
from functions.storage.group_commits import Conflicted
from functions.storage.index_pages import KEYS, every_page, listed_task, read_entries
from functions.storage.record_rows import difference, find_keys_of, index_keys_of, index_rows, parent_of
from functions.storage.row_keys import TaskIndex, index_range, shard_name, shard_of, task_in, task_key
from functions.storage.table_contract import MOST_OPERATIONS, CorruptRowError, Row, RowChange, StorageError
from functions.storage.task_storage import TaskStorage

_log = logging.getLogger(__name__)

_INDEXES = (TaskIndex.DUE, TaskIndex.ERROR, TaskIndex.DONE, TaskIndex.SUSPENDED, TaskIndex.GATE)
_REPAIRS_AT_ONCE = 10
#: Tries for one task: to repair it while it changes, or to delete it without a row that did not exist.
_MOST_TRIES = 10


@dataclass(slots=True)
class Maintained:
    """The result for one window or page. `cursor` is its last task or row; None: it was the last one.

    `created` and `deleted` count index rows, or `deleted` finished tasks. `failed` counts tasks that changed
    all the time, or whose rows the service did not return or take.
    """

    cursor: str | None = None
    tasks: int = 0
    created: int = 0
    deleted: int = 0
    failed: int = 0
    corrupt: list[CorruptRowError] = field(default_factory=list)


class IndexRepair:
    """Repairs the index rows by state and gate; rows of search keys and messages stay as they are.

    All index rows of a shard are read for each `window` of tasks.
    """

    def __init__(self, storage: TaskStorage, *, window: int) -> None:
        self._storage, self._window = storage, window

    async def compare(self, shard: int, cursor: str | None = None) -> Maintained:
        """Compare the next tasks of a shard after `cursor`. Raises `TransientStorageError`."""
        result = Maintained()
        expected = await self._expected(shard, cursor, result)
        suspects = await self._suspects(shard, cursor, expected, result)
        suspects |= {task: set() for task, keys in expected.items() if keys and task not in suspects}
        for some in batched(suspects.items(), _REPAIRS_AT_ONCE, strict=False):
            await asyncio.gather(*(self._repair(task, seen, result) for task, seen in some))
        return result

    async def _expected(self, shard: int, cursor: str | None, result: Maintained) -> dict[str, set[str]]:
        """Return the keys of the index rows of each task in the window."""
        expected: dict[str, set[str]] = {}
        query = replace(
            row_keys.ALL_TASKS,
            beyond=None if cursor is None else task_key(cursor),
            most=min(1000, self._window),
            columns=(*KEYS, "Index", "Gates"),
            having="Index",
        )
        async for page in every_page(self._storage.table, shard_name(shard), query):
            for row in page.rows:
                result.tasks += 1
                try:
                    expected[_key(row).partition("|")[0]] = set(index_keys_of(row))
                except CorruptRowError as error:
                    result.corrupt.append(error)
            if result.tasks >= self._window and page.rows and page.continuation is not None:
                result.cursor = _key(page.rows[-1]).partition("|")[0]
                break
        return expected

    async def _suspects(
        self, shard: int, cursor: str | None, expected: dict[str, set[str]], result: Maintained
    ) -> dict[str, set[str]]:
        """Return the index rows in the window that no task expects, or that are corrupt, by task.

        The rows that are as expected are removed from `expected`.
        """
        suspects: dict[str, set[str]] = {}
        start = "" if cursor is None else task_key(cursor)
        end = None if result.cursor is None else task_key(result.cursor)
        for index in _INDEXES:
            async for page in every_page(self._storage.table, shard_name(shard), index_range(index)):
                for row in page.rows:
                    key = _key(row)
                    task = task_in(key)
                    if task_key(task) <= start or (end is not None and task_key(task) > end):
                        continue  # it belongs to another window
                    if key in expected.get(task, ()) and _is_sound(row):
                        expected[task].remove(key)
                    else:
                        suspects.setdefault(task, set()).add(key)
        return suspects

    async def _repair(self, task: str, seen: set[str], result: Maintained) -> None:
        """Repair the index rows of one task. The task and these rows are read again before."""
        try:
            for _ in range(_MOST_TRIES):
                changes = await self._changes(task, seen)
                if not changes:
                    return
                if not isinstance(await self._storage.commit(task, changes), Conflicted):
                    kinds = Counter(each.kind for each in changes)
                    result.created += kinds["upsert"]
                    result.deleted += kinds["delete"]
                    _log.warning("task %s: its index rows are repaired: %s", task, dict(kinds))
                    return
        except CorruptRowError as error:
            result.corrupt.append(error)
            return
        except StorageError as error:
            _log.warning("task %s: its index rows are not repaired: %s", task, error)
        result.failed += 1

    async def _changes(self, task: str, seen: set[str]) -> list[RowChange]:
        """Return the changes of a repair."""
        stored = await self._storage.read(task)
        if stored is None:  # without a task, each row is deleted if it is still as it was read
            rows = await self._read(task, seen)
            return [RowChange("delete", key, etag=str(row["odata.etag"])) for key, row in rows.items()]
        guard, after = difference(stored, stored.record, self._storage.new_write())
        right = index_rows(after)
        rows = await self._read(task, {*right, stored.index, *seen})
        missing = [key for key in right if key not in rows or not _is_sound(rows[key])]
        changes = [RowChange("upsert", key, right[key]) for key in missing]
        changes += [RowChange("delete", key) for key in rows if key not in right]
        return [guard[0], *changes] if changes else []

    async def _read(self, task: str, keys: Iterable[str]) -> dict[str, Row]:
        """Return the rows that exist, by key."""
        partition = shard_of(task, self._storage.shards)
        rows = await asyncio.gather(*(self._storage.table.read(partition, key) for key in sorted(keys)))
        return {_key(row): row for row in rows if row is not None}


def _key(row: Row) -> str:
    return str(row["RowKey"])


def _is_sound(row: Row) -> bool:
    try:
        listed_task(row)
    except CorruptRowError:
        return False
    return True


async def delete_finished(
    storage: TaskStorage, shard: int, before: datetime, *, cursor: str | None = None, most: int = 100
) -> Maintained:
    """Delete at most `most` tasks that ended before a time (UTC). Raises `TransientStorageError`."""
    query = replace(index_range(TaskIndex.DONE, until=before), beyond=cursor, most=most, columns=KEYS)
    page = await read_entries(storage.table, shard_name(shard), query, _key)
    result = Maintained(page.cursor)
    for key in page.entries:
        try:
            result.deleted += await _delete(storage, task_in(key), key)
        except CorruptRowError as error:
            result.corrupt.append(error)
        except StorageError as error:
            _log.warning("task %s: not deleted: %s", task_in(key), error)
            result.failed += 1
    return result


async def _delete(storage: TaskStorage, task: str, index: str) -> bool:
    """Delete all rows of a task whose index row is `index`; return whether they are deleted.

    Closed epochs are deleted first, and the record and its index row in the last transaction. So a reader
    sees a complete task or none, and the next run finds the rest.
    """
    table, partition = storage.table, shard_of(task, storage.shards)
    order = await table.read(partition, row_keys.order_key(task))
    own = await table.read(partition, task_key(task))
    if own is None and order is not None and "Reserved" in order:  # of a new order
        order = None
    guard = order if own is None else own
    if guard is None:  # another task of this id may begin at any time
        return await _delete_rows(storage, task, [index], None)
    if own is not None and index not in index_keys_of(own):
        return False  # an outdated index row, which the full sweep deletes
    parent = None if order is None else parent_of(order)
    if parent and await table.read(shard_of(parent, storage.shards), task_key(parent)) is not None:
        return False  # the undo of its parent includes it
    pages = every_page(table, partition, replace(row_keys.rows_of(task), columns=KEYS))
    keys = [_key(row) async for page in pages for row in page.rows]
    epochs = [key for key in keys if key.startswith(f"{task}|epoch|")]
    others = find_keys_of(order, task) if order is not None else []
    others += [*(key for key in keys if key not in epochs and key != _key(guard)), index]
    early, last = others[: -MOST_OPERATIONS + 1], others[-MOST_OPERATIONS + 1 :]
    for some in batched([*epochs, *early], MOST_OPERATIONS, strict=False):
        if not await _delete_rows(storage, task, list(some), None):
            return False
    return await _delete_rows(storage, task, last, guard)


async def _delete_rows(storage: TaskStorage, task: str, keys: list[str], guard: Row | None) -> bool:
    """Delete rows in one transaction, with the row `guard` if it has not changed."""
    first = [] if guard is None else [RowChange("delete", _key(guard), etag=str(guard["odata.etag"]))]
    for _ in range(_MOST_TRIES):
        changes = [*first, *(RowChange("delete", key) for key in keys)]
        result = await storage.commit(task, changes) if changes else None
        if not isinstance(result, Conflicted):
            return True
        if result.key not in keys:  # the task has changed
            return False
        keys = [key for key in keys if key != result.key]
    return False
