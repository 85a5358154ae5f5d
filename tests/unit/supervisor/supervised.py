"""A process with a Supervisor, over a table that may end the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

from pydantic import BaseModel

from functions.core.definition.step_definition import Results, Step
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.record import Message, TaskRecord
from functions.core.rules import admit
from functions.storage.gates import Gates
from functions.storage.table_contract import Table
from functions.supervisor.sweep_progress import SweepReport
from functions.supervisor.task_sweep import TaskSweep
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.storage_process import ProcessTable, StorageProcess, virtual_now

NONE = WorkflowRegistry([])


class Payload(BaseModel):
    """The payload of the tests."""


def workflow(steps: Sequence[str] = ("a",), version: int = 1) -> Workflow[Payload]:
    """Return a workflow with steps of these names."""

    def request(_payload: Payload, _results: Results) -> dict[str, object]:
        return {}

    return Workflow(
        "w", payload=Payload, version=version, steps=[Step(name, request=request) for name in steps]
    )


def ending_table(table: Table, ends_at: int) -> ProcessTable:
    """Return the table as a process reaches it that ends at this number of its requests and answers."""
    crossings = count(1)

    async def cross() -> None:
        if next(crossings) >= ends_at:
            await asyncio.get_running_loop().create_future()

    return ProcessTable(table, cross)


class Supervised(StorageProcess):
    """One process with its Supervisor. `accepts` returns whether a message can be sent."""

    def __init__(
        self,
        table: Table,
        *,
        shards: int = 1,
        registry: WorkflowRegistry = NONE,
        recoveries: int = 100,
        **others: Any,
    ) -> None:
        super().__init__(table, shards=shards, **others)
        self.sent: list[Message] = []
        self.accepts: Callable[[Message], bool] = lambda _message: True
        self.links: list[str] = []
        self.gates = Gates(
            self.storage, settings=self.settings, now=virtual_now, schedule_release=self._schedule_release
        )
        self.supervisor = TaskSweep(
            self.storage,
            gates=self.gates,
            registry=registry,
            send=self._send,
            now=virtual_now,
            recoveries=recoveries,
        )

    async def _schedule_release(self, name: str, _link: int, _at: object) -> None:
        self.links.append(name)

    async def _send(self, message: Message) -> None:
        await asyncio.sleep(0.01)
        if not self.accepts(message):
            await asyncio.sleep(30)
            raise ConnectionError("the queue does not exist")
        self.sent.append(message)

    async def sweep(self, *, is_overloaded: bool = False) -> SweepReport:
        """Sweep once."""
        return await self.supervisor.run(is_overloaded=is_overloaded)

    async def submit(self, task: str, deployed: Workflow[Payload]) -> TaskRecord:
        """Admit a task of a workflow."""
        order = deployed.new_order(task, "r1", "{}", self.now())
        record, _ = await self.storage.admit(admit(order, self.now(), self.settings))
        return record

    async def record(self, task: str) -> TaskRecord:
        """Return the newest record of a task."""
        record = await self.storage.load(task)
        assert record is not None
        return record


async def admit_due(table: IndexedTable, count: int, *, shards: int = 1, **order: Any) -> Supervised:
    """Admit tasks that no run picks up, and wait until they are overdue."""
    process = Supervised(table, shards=shards)
    for number in range(count):
        await process.admit(f"t{number:04d}", **order)
    await asyncio.sleep(timedelta(seconds=33).total_seconds())
    return process
