"""Read from the state store which orders were admitted and what state they are in."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from azure.data.tables.aio import TableServiceClient

from functions.storage.row_keys import shard_name
from functions.table_accounts import TASKS_TABLE

_UNFINISHED = "RowKey ge '!due|' and RowKey lt '!due}'"


@dataclass(slots=True)
class StoredTasks:
    """The rows of all tasks. `digest` changes with any row; `states` has the `ProcessState` by task id."""

    rows: int = 0
    digest: str = ""
    orders: set[str] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)
    rejected: int = 0

    def faults(self, expected: Collection[str]) -> list[str]:
        """Return the differences from a store that admitted exactly these orders and processed them."""
        wanted = set(expected)
        states = Counter(state for task, state in self.states.items() if task in wanted)
        counts = {
            "orders are not recorded": len(wanted - self.orders),
            "orders are recorded and were not sent": len(self.orders - wanted),
            "orders have no task": len(wanted - self.states.keys()),
            "tasks are not Processed": states.total() - states["Processed"],
            "messages were rejected": self.rejected,
        }
        return [f"{count} {fault}" for fault, count in counts.items() if count]


async def read_evidence(storage: str, shards: int) -> StoredTasks:
    """Read all shards one after another: Azurite sorts the whole table for each page of a query."""
    evidence, digest = StoredTasks(), hashlib.sha256()
    columns = ["PartitionKey", "RowKey", "Timestamp", "ProcessState"]
    async with TableServiceClient.from_connection_string(storage) as service:
        table = service.get_table_client(TASKS_TABLE)
        for shard in map(shard_name, range(shards)):
            async for row in table.query_entities(f"PartitionKey eq '{shard}'", select=columns):
                digest.update(f"{shard} {row['RowKey']} {row.metadata['timestamp']}\n".encode())
                evidence.rows += 1
                task, _, kind = row["RowKey"].partition("|")
                if kind == "order":
                    evidence.orders.add(task)
                elif kind == "task":
                    evidence.states[task] = row["ProcessState"]
        rejected = service.get_table_client("Rejected")
        keys = [row["RowKey"] async for row in rejected.list_entities(select=["RowKey"])]
        evidence.rejected = sum(not key.startswith("!") for key in keys)
    evidence.digest = digest.hexdigest()
    return evidence


async def until_idle(storage: str) -> None:
    """Wait until four reads in two seconds find no unfinished task."""
    idle = 0
    while idle < 4:
        idle = 0 if await _any_unfinished(storage) else idle + 1
        await asyncio.sleep(0.5)


async def _any_unfinished(storage: str) -> bool:
    async with TableServiceClient.from_connection_string(storage) as service:
        table = service.get_table_client(TASKS_TABLE)
        async for _ in table.query_entities(_UNFINISHED, select=["RowKey"], results_per_page=1):
            return True
    return False
