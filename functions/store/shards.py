"""The shards of the state store: the partitions of the table of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from azure.data.tables.aio import TableClient

from functions.pattern.identity import TaskId
from functions.store.connect import TableStorage
from functions.store.entity_groups import EntityGroups
from functions.store.keys import shard_key, shard_number
from functions.store.row_reads import RowReads


@dataclass(frozen=True, slots=True, eq=False)
class Shards:
    """The `count` shards of one table, numbered from 0, and the clients that read and write the table."""

    table: TableClient
    groups: EntityGroups
    row_reads: RowReads
    count: int

    @classmethod
    def of(cls, storage: TableStorage, table: str, count: int) -> Self:
        """Return the shards of an account's table."""
        return cls(storage.table(table), storage.groups(table), storage.rows(table), count)

    def key(self, task: TaskId) -> str:
        """Return the partition key of the task's shard."""
        return shard_key(shard_number(task, self.count))
