"""A state store over two accounts, here tables, whose first shard is moved; and tables that misbehave."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from azure.core.exceptions import ServiceResponseError
from azure.data.tables.aio import TableClient, TableServiceClient

from functions.pattern.identity import TaskId
from functions.pattern.request_figures import StoreFigures
from functions.store.connect import TableStorage
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, GroupWritten, Operation
from functions.store.keys import ACCOUNT_ROW, FENCE_ROW, SHARDS_PARTITION, shard_key, shard_number
from functions.store.known_map import KnownMap
from functions.store.shard_map import ShardMap, map_entity
from functions.store.shard_move import ShardMove
from functions.store.shards import Shards, StateAccount
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE
from tests.integration.processes import Process

SHARDS = 2
ROWS = 5  # of one such task
TASKS = [TaskId(f"task-{number}") for number in range(60)]
MOVED = [task for task in TASKS if shard_number(task, SHARDS) == 0]


class Groups(EntityGroups):
    """Entity groups to which something can happen before they are sent."""

    def __init__(self, groups: EntityGroups) -> None:
        self._groups = groups
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    async def send(self, partition: str, operations: Sequence[Operation]) -> GroupWritten | GroupRefused:
        """Write as `EntityGroups` does, after what happens meanwhile."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return await self._groups.send(partition, operations)


class MovedStore:
    """The accounts, and the processes that work with them."""

    def __init__(self, storage: TableStorage, tables: list[TableClient]) -> None:
        self._storage = storage
        self.tables = tables
        self.pauses: list[float] = []
        #: What happens in the next pauses, in their turn.
        self.meanwhile: list[Callable[[], Awaitable[object]]] = []

    @classmethod
    async def make(cls, storage: TableStorage, service: TableServiceClient) -> MovedStore:
        """Make two tables and a map by which both shards are in the first."""
        tables = [await service.create_table(f"T{uuid.uuid4().hex}") for _ in range(2)]
        await tables[0].create_entity(map_entity(ShardMap("this", (0,) * SHARDS)))
        for number, table in enumerate(tables):
            key = {"PartitionKey": SHARDS_PARTITION, "RowKey": ACCOUNT_ROW}
            await table.create_entity({**key, "Store": "this", "Account": number})
        return cls(storage, tables)

    def process(self) -> Process:
        """Start a process, which knows no map yet."""
        accounts = [StateAccount.of(self._storage, table.table_name) for table in self.tables]
        self.groups = Groups(accounts[0].groups)
        accounts[0] = replace(accounts[0], groups=self.groups)
        shards = Shards(accounts, SHARDS, KnownMap(self.tables[0], StoreFigures()))
        return Process(self.tables[0], self.groups, accounts[0].row_reads, shards=shards)

    def late(self) -> tuple[Process, Shards]:
        """Give a process, with its shards, that works with the first account alone, as late requests do."""
        account = StateAccount.of(self._storage, self.tables[0].table_name)
        shards = Shards([account], SHARDS)
        return Process(self.tables[0], account.groups, account.row_reads, shards=shards), shards

    async def admit_all(self) -> Process:
        """Record all the tasks."""
        process = self.process()
        await asyncio.gather(*(process.store.admit(pending(LINE, task)) for task in TASKS))
        return process

    async def move(self, to: int = 1, tables: Sequence[Any] | None = None) -> int:
        """Move the first shard as the command does, but wait for nothing."""
        return await ShardMove(tables or self.tables, pause=self._pause).move(0, to)

    async def rows(self, account: int, *, fence: bool = False) -> dict[str, dict[str, Any]]:
        """Read the first shard's rows in one account, by their keys; with the `fence`, if there is one."""
        query = self.tables[account].query_entities(
            "PartitionKey eq @shard", parameters={"shard": shard_key(0)}
        )
        return {row["RowKey"]: dict(row) async for row in query if fence or row["RowKey"] != FENCE_ROW}

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if self.meanwhile:
            await self.meanwhile.pop(0)()


class TableWith:
    """A table to whose changes something happens: `around` is given each change, to do it or not."""

    def __init__(self, table: TableClient, around: Callable[[Callable[[], Awaitable[Any]]], Any]) -> None:
        self._table = table
        self._around = around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def submit_transaction(self, operations: Any) -> Any:
        """Change rows."""
        return await self._around(lambda: self._table.submit_transaction(operations))

    async def update_entity(self, entity: Any, **options: Any) -> Any:
        """Change a row."""
        return await self._around(lambda: self._table.update_entity(entity, **options))

    async def upsert_entity(self, entity: Any, **options: Any) -> Any:
        """Write a row."""
        return await self._around(lambda: self._table.upsert_entity(entity, **options))

    async def delete_entity(self, entity: Any, **options: Any) -> Any:
        """Delete a row."""
        return await self._around(lambda: self._table.delete_entity(entity, **options))


class Crash:
    """The n-th change is done, or not, and then its answer is lost: that run ends there."""

    def __init__(self, at: int, *, done: bool) -> None:
        self._left = at
        self._done = done

    async def around(self, change: Callable[[], Awaitable[Any]]) -> Any:
        """Do the change, or crash."""
        self._left -= 1
        if self._left != 0:
            return await change()
        if self._done:
            await change()
        raise ServiceResponseError("no answer")


class Once:
    """Before the n-th change something happens."""

    def __init__(self, at: int, what: Callable[[], Awaitable[object]]) -> None:
        self._left = at
        self._what = what

    async def around(self, change: Callable[[], Awaitable[Any]]) -> Any:
        """Let it happen, then do the change."""
        self._left -= 1
        if self._left == 0:
            await self._what()
        return await change()
