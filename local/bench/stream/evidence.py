"""What the state store holds, read directly: which orders were admitted, when, and what became of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from azure.data.tables.aio import TableServiceClient

from functions.store.keys import shard_key
from functions.store.tables import TASKS_TABLE

_COLUMNS = [
    "PartitionKey",
    "RowKey",
    "Timestamp",
    "SubmittedAt",
    "ProcessState",
    "FinishedAt",
    "FailureCount",
]
_REJECTED = "Rejected"
_UNFINISHED = "RowKey ge '!due|' and RowKey lt '!due}'"


@dataclass(frozen=True, slots=True)
class RecordedOrder:
    """One order that was recorded. Times are UTC."""

    submitted_at: datetime
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class EndedTask:
    """What became of a task."""

    state: str
    finished_at: datetime | None
    failure_count: int


@dataclass(slots=True)
class StoredTasks:
    """All rows of all tasks; `digest` changes with any of them."""

    rows: int = 0
    digest: str = ""
    orders: dict[str, RecordedOrder] = field(default_factory=dict)
    tasks: dict[str, EndedTask] = field(default_factory=dict)
    rejected: int = 0

    def faults(self, expected: Collection[str]) -> list[str]:
        """Say what is wrong, if each of these orders should be admitted once and be `Processed`."""
        wanted = set(expected)
        states = Counter(self.tasks[task].state for task in wanted & self.tasks.keys())
        counts = {
            "orders are not recorded": len(wanted - self.orders.keys()),
            "orders are recorded that nobody sent": len(self.orders.keys() - wanted),
            "orders have no task": len(wanted - self.tasks.keys()),
            "tasks are not Processed": states.total() - states["Processed"],
            "messages were set aside": self.rejected,
        }
        return [f"{count} {what}" for what, count in counts.items() if count]

    def of(self, tasks: Iterable[str]) -> Sequence[tuple[RecordedOrder, EndedTask]]:
        """Give some orders with their ends."""
        return [(self.orders[task], self.tasks[task]) for task in tasks]

    @property
    def failures(self) -> Counter[int]:
        """How many tasks have which `FailureCount`."""
        return Counter(each.failure_count for each in self.tasks.values())


async def read_evidence(storage: str, shards: int) -> StoredTasks:
    """Read all shards, one after the other: to read all at once, Azurite would sort all for each page."""
    evidence, digest = StoredTasks(), hashlib.sha256()
    async with TableServiceClient.from_connection_string(storage) as service:
        table = service.get_table_client(TASKS_TABLE)
        for shard in map(shard_key, range(shards)):
            async for row in table.query_entities(f"PartitionKey eq '{shard}'", select=_COLUMNS):
                digest.update(f"{shard} {row['RowKey']} {row.metadata['timestamp']}\n".encode())
                evidence.rows += 1
                _add(evidence, row)
        rejected = service.get_table_client(_REJECTED)
        evidence.rejected = len([row async for row in rejected.list_entities(select=["RowKey"])])
    evidence.digest = digest.hexdigest()
    return evidence


async def any_unfinished(storage: str) -> bool:
    """Tell whether a task is under way, by the index that has each of those."""
    async with TableServiceClient.from_connection_string(storage) as service:
        table = service.get_table_client(TASKS_TABLE)
        async for _ in table.query_entities(_UNFINISHED, select=["RowKey"], results_per_page=1):
            return True
    return False


def _add(evidence: StoredTasks, row: Any) -> None:
    task, _, kind = row["RowKey"].partition("|")
    if kind == "order":
        evidence.orders[task] = RecordedOrder(row["SubmittedAt"], row.metadata["timestamp"])
    elif kind == "task":
        evidence.tasks[task] = EndedTask(row["ProcessState"], row.get("FinishedAt"), row["FailureCount"])
