"""The shards of the state store: which one a task is in, and in which account's table it lies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

from azure.data.tables.aio import TableClient

from functions.pattern.errors import ShardClosedError, TransientError
from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.store.connect import TableStorage
from functions.store.entity_groups import EntityGroups
from functions.store.keys import shard_key, shard_number
from functions.store.known_map import KnownMap
from functions.store.row_reads import RowReads


@dataclass(frozen=True, slots=True, eq=False)
class StateAccount:
    """The table of tasks in one storage account, and the ways in which it is read and written."""

    table: TableClient
    groups: EntityGroups
    row_reads: RowReads

    @classmethod
    def of(cls, storage: TableStorage, table: str) -> Self:
        """Take an account's table by its name."""
        return cls(storage.table(table), storage.groups(table), storage.rows(table))


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard where it lies now: its partition key, and the account."""

    key: str
    account: StateAccount


class Shards:
    """Gives the shards of tasks. With several accounts, the map of the shards says which one each is in.

    A shard is given for a block of code. A block that took so long that the shard may have been moved
    meanwhile ends with `TransientError`: nothing that was read or written there counts.
    """

    def __init__(
        self, accounts: Sequence[StateAccount], count: int, known_map: KnownMap | None = None
    ) -> None:
        if known_map is None and len(accounts) > 1:
            raise ValueError("several accounts need the map of the shards")
        self._accounts = tuple(accounts)
        self._count = count
        self._map = known_map

    @classmethod
    def over(cls, storages: Sequence[TableStorage], table: str, count: int, figures: StoreFigures) -> Self:
        """Take the table of that name of each account; one account needs no map."""
        accounts = [StateAccount.of(storage, table) for storage in storages]
        known_map = KnownMap(accounts[0].table, figures) if len(accounts) > 1 else None
        return cls(accounts, count, known_map)

    @property
    def count(self) -> int:
        """Tell how many shards there are; they are numbered from 0."""
        return self._count

    @property
    def accounts(self) -> Sequence[StateAccount]:
        """Give the accounts by their numbers; what is no task's lies in the first."""
        return self._accounts

    @asynccontextmanager
    async def of(self, task: TaskId) -> AsyncIterator[Shard]:
        """Give a task's shard, while the block runs. Raises `ShardClosedError` when it is being moved."""
        async with self.numbered(shard_number(task, self._count)) as shard:
            yield shard

    @asynccontextmanager
    async def numbered(self, number: int) -> AsyncIterator[Shard]:
        """Give a shard, while the block runs. Raises `ShardClosedError` when it is being moved."""
        if self._map is None:
            yield Shard(shard_key(number), self._accounts[0])
            return
        lease = await self._map.lease()
        moving = lease.map.moving
        if moving is not None and moving.shard == number:
            raise ShardClosedError(f"shard {number} is being moved to account {moving.to}")
        account = lease.map.accounts[number]
        if account >= len(self._accounts):
            raise TransientError(f"shard {number} is in account {account}, which this instance does not know")
        yield Shard(shard_key(number), self._accounts[account])
        if not await self._map.holds(lease):
            raise TransientError(f"shard {number}: the map of the shards has changed meanwhile")
