"""The state store as one process of the application has it; two processes share nothing but the table."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from enum import Enum
from typing import Any

from azure.core.exceptions import ServiceResponseError
from azure.data.tables.aio import TableClient

from functions.pattern.definition import Registry
from functions.pattern.events import Event
from functions.pattern.folding import Complete, Rules
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import Changed, Stored
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, GroupWritten, Operation
from functions.store.keys import OUTBOX
from functions.store.row_reads import RowReads
from functions.store.state_store import TableStateStore
from functions.store.task_table import TaskTable
from functions.store.task_writer import TaskWriter
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.clock import FakeClock
from tests.fakes.shards import shards_in
from tests.fakes.workflows import DIAMOND, LINE


class Loss(Enum):
    """What the client does when a response is lost."""

    #: It retries the write, as its retry policy says.
    REPEATED = "repeated"
    #: It was the last attempt: it raises.
    GIVEN_UP = "given up"
    #: Nothing was written; it raises.
    UNSENT = "unsent"


class LossyGroups(EntityGroups):
    """Entity groups that can be made to succeed while their response is lost."""

    def __init__(self, groups: EntityGroups) -> None:
        self._groups = groups
        self._lose_next: list[Loss] = []

    def lose_next_answer(self, *losses: Loss) -> None:
        """Let the next writes go wrong like this."""
        self._lose_next = list(losses)

    async def send(self, partition: str, operations: Sequence[Operation]) -> GroupWritten | GroupRefused:
        """Write as `EntityGroups` does."""
        loss = self._lose_next.pop(0) if self._lose_next else None
        if loss in {Loss.REPEATED, Loss.GIVEN_UP}:
            await self._groups.send(partition, operations)
        if loss in {Loss.UNSENT, Loss.GIVEN_UP}:
            raise ServiceResponseError("no answer")
        return await self._groups.send(partition, operations)


class Process:
    """A state store with its own clock, figures and cache."""

    def __init__(self, table: TableClient, groups: EntityGroups, row_reads: RowReads) -> None:
        self.table = table
        self.clock = FakeClock()
        self.figures = StoreFigures()
        self.lossy = LossyGroups(groups)
        self.announcer = RecordingAnnouncer()
        self.registry = Registry((LINE, DIAMOND), {})
        rows = TaskTable(shards_in(table, self.lossy, row_reads), self.figures)
        self.complete: Complete = lambda record: record
        self.writer = TaskWriter(
            rows,
            clock=self.clock,
            new_id=lambda: uuid.uuid4().hex,
            rules=Rules(self._complete),
        )
        self.store = TableStateStore(rows, self.writer, self.announcer)

    def _complete(self, record: TaskRecord) -> TaskRecord:
        return self.complete(record)

    async def read(self, task: TaskId) -> Stored:
        """Read a task that must exist."""
        stored = await self.store.load(task)
        assert stored is not None
        return stored

    async def rows(self) -> dict[str, dict[str, Any]]:
        """Read the whole table: rows by key, each with its ETag and timestamp."""
        return {
            row["RowKey"]: {**row, "etag": row.metadata["etag"], "timestamp": row.metadata["timestamp"]}
            async for row in self.table.list_entities()
        }

    async def told(self, task: TaskId, *events: Event) -> Stored:
        """Apply events to an existing task, and read it; none of them may be refused."""
        for event in events:
            outcome = await self.store.change(task, event)
            assert isinstance(outcome, Changed), f"{event} was refused: {outcome.reason}"
        return await self.read(task)

    async def index(self) -> list[str]:
        """List the index rows."""
        return [key for key in await self.rows() if key.startswith("!") and not key.startswith(OUTBOX)]
