"""Retention: deletes the rows of finished tasks. Tasks in `Error` and messages that are not sent stay."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import batched

from functions.storage.group_commits import Conflicted
from functions.storage.index_pages import next_cursor
from functions.storage.record_rows import find_keys_of, index_keys_of
from functions.storage.row_keys import (
    TaskIndex,
    index_range,
    order_key,
    rows_of,
    shard_name,
    shard_of,
    task_in,
    task_key,
)
from functions.storage.table_contract import KEYS, MOST_OPERATIONS, RowChange, StorageError, every_page
from functions.storage.task_storage import TaskStorage

_log = logging.getLogger(__name__)

#: Tries to delete one task, each without a row that did not exist.
_MOST_TRIES = 10


@dataclass(frozen=True, slots=True)
class DeletedTasks:
    """The result for one page of finished tasks. `cursor` continues after it; None: it was the last one.

    `failed` counts tasks that stay until another run.
    """

    deleted: int
    failed: int
    cursor: str | None


class TaskRetention:
    """Deletes tasks shard by shard. A run that is cut short has made progress."""

    def __init__(self, storage: TaskStorage) -> None:
        self._storage = storage

    async def delete_finished(
        self, shard: int, before: datetime, *, cursor: str | None = None, most: int = 100
    ) -> DeletedTasks:
        """Delete at most `most` tasks that ended before a time (UTC). Raises `TransientStorageError`.

        A task that cannot be deleted is passed over, so it hides no other task.
        """
        query = replace(index_range(TaskIndex.DONE, until=before), beyond=cursor, most=most, columns=KEYS)
        page = await self._storage.table.query(shard_name(shard), query)
        deleted = 0
        for row in page.rows:
            key = str(row["RowKey"])
            try:
                deleted += await self._delete(task_in(key), key)
            except StorageError as error:
                _log.warning("task %s: not deleted: %s", task_in(key), error)
        return DeletedTasks(
            deleted, len(page.rows) - deleted, next_cursor(page.rows, most, page.continuation)
        )

    async def _delete(self, task: str, index: str) -> bool:
        """Delete all rows of a task whose index row is `index`; return whether they are deleted.

        Closed epochs are deleted first. The task row is deleted in the last transaction, together with the
        order and the index row. So a reader sees a whole task or none, and the next run finds the rest.
        """
        table, partition = self._storage.table, shard_of(task, self._storage.shards)
        own, order = await table.read(partition, task_key(task)), await table.read(partition, order_key(task))
        if own is not None and index not in index_keys_of(own):
            return False  # an outdated index row, which the full sweep deletes
        pages = every_page(table, partition, replace(rows_of(task), columns=KEYS))
        keys = [str(row["RowKey"]) async for page in pages for row in page.rows]
        epochs = [key for key in keys if key.startswith(f"{task}|epoch|")]
        others = [key for key in keys if key not in epochs and key != task_key(task)]
        others += [index, *(find_keys_of(order, task) if order is not None else ())]
        early, last = others[: -MOST_OPERATIONS + 1], others[-MOST_OPERATIONS + 1 :]
        for some in batched([*epochs, *early], MOST_OPERATIONS, strict=False):
            if not await self._delete_rows(task, list(some), None):
                return False
        return await self._delete_rows(task, last, None if own is None else str(own["odata.etag"]))

    async def _delete_rows(self, task: str, keys: list[str], etag: str | None) -> bool:
        """Delete rows in one transaction, with the task row if it has the version `etag`."""
        guard = [] if etag is None else [RowChange("delete", task_key(task), etag=etag)]
        for _ in range(_MOST_TRIES):
            changes = [*guard, *(RowChange("delete", key) for key in keys)]
            result = await self._storage.commit(task, changes) if changes else None
            if not isinstance(result, Conflicted):
                return True
            if result.key not in keys:  # the task has changed
                return False
            keys = [key for key in keys if key != result.key]
        return False
