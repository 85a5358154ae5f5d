"""The new state store as one process has it; processes share the table only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from functions.core.derive import ready_steps
from functions.core.record import Direction, Message, Order, RuleSettings, StepSpec, TaskRecord
from functions.core.rules import Applied, Plan, admit
from functions.core.task_events import Event, OutcomeKind, RunStarted, StepEnded, StepStarted
from functions.storage.table_contract import RefusedChanges, Row, RowChange, RowPage, RowQuery, Table
from functions.storage.task_inbox import Transition
from functions.storage.task_storage import TaskStorage

#: The start of the virtual time.
START = datetime(2026, 1, 1, tzinfo=UTC)
_IDS = count(1)


def new_id() -> str:
    """Return an id that no other process has."""
    return f"{next(_IDS):08x}"


async def no_client(_request: object) -> bool:
    """Start no run, as a function without a Durable client."""
    return False


def virtual_now() -> datetime:
    """Return the time of the running loop."""
    return START + timedelta(seconds=asyncio.get_running_loop().time())


def real_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


def line(steps: int = 5, **fields: Any) -> tuple[StepSpec, ...]:
    """Return the specs of steps that need each other in a row."""
    names = [f"s{number}" for number in range(steps)]
    specs = [StepSpec(name=name, agent="a", undo=True) for name in names]
    needs = [frozenset[str](), *(frozenset({name}) for name in names)]
    return tuple(replace(spec, needs=needed, **fields) for spec, needed in zip(specs, needs, strict=False))


def order(task: str, *specs: StepSpec, at: datetime = START, payload: str = "{}") -> Order:
    """Return an order of a task."""
    return Order(
        task=task,
        run_id="r1",
        workflow="w",
        version=1,
        digest="d",
        specs=specs or line(),
        payload=payload,
        submitter="me",
        submitted_at=at,
    )


class ProcessTable:
    """The table as one process reaches it: it may end before each request, and after each transaction."""

    def __init__(self, table: Table, cross: Callable[[], Awaitable[None]]) -> None:
        self._table, self._cross = table, cross

    async def send(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none."""
        await self._cross()
        answer = await self._table.send(partition, changes)
        await self._cross()
        return answer

    async def read(self, partition: str, key: str) -> Row | None:
        """Return one row."""
        await self._cross()
        return await self._table.read(partition, key)

    async def query(self, partition: str, query: RowQuery) -> RowPage:
        """Read one page."""
        await self._cross()
        return await self._table.query(partition, query)


class StorageProcess:
    """A state store with its own cache, and a list of the changes that it announced."""

    def __init__(
        self,
        table: Table,
        now: Callable[[], datetime] = virtual_now,
        *,
        shards: int = 1,
        settings: RuleSettings | None = None,
    ) -> None:
        self.settings = settings or RuleSettings()
        self.now = now
        self.announced: list[Transition] = []
        self.storage = TaskStorage(
            table,
            shards=shards,
            settings=self.settings,
            now=now,
            new_id=new_id,
            announce=self._announce,
            random=Random(1),  # noqa: S311 - it spreads retries
        )

    async def _announce(self, transition: Transition) -> Sequence[Message]:
        self.announced.append(transition)
        return ()

    async def admit(self, task: str, *specs: StepSpec, payload: str = "{}", **fields: Any) -> TaskRecord:
        """Admit a new task."""
        made = replace(order(task, *specs, at=self.now(), payload=payload), **fields)
        record, is_new = await self.storage.admit(admit(made, self.now(), self.settings))
        assert is_new
        return record

    async def change(
        self, task: str, event: Event | None, *, plan: Plan | None = None, seconds: float = 20
    ) -> Applied:
        """Record an event within a time in seconds."""
        until = self.now() + timedelta(seconds=seconds)
        return await self.storage.change(task, event, plan=plan, until=until)

    def plan(self, request: str = "{}") -> Plan:
        """Return a plan that starts all ready steps with a request."""

        def starts(record: TaskRecord, now: datetime) -> Sequence[StepStarted]:
            return [
                StepStarted(
                    epoch=record.epoch,
                    run=record.run,
                    step=name,
                    start_id=new_id(),
                    complete_by=now + timedelta(seconds=record.order.by_name[name].complete_within),
                    request=request,
                )
                for name in ready_steps(record)
            ]

        return starts

    async def start(self, task: str) -> TaskRecord:
        """Start the first run of a task with the starts of its ready steps."""
        applied = await self.change(task, RunStarted(epoch=1, run=1), plan=self.plan())
        return applied.record

    async def end(self, record: TaskRecord, step: str, result: str = "{}") -> TaskRecord:
        """Record the outcome of a step that is under way, with the starts that follow."""
        ended = StepEnded(
            epoch=record.epoch,
            step=step,
            direction=Direction.DO,
            start_id=record.do(step).start_id or "none",
            kind=OutcomeKind.DONE,
            result=result,
        )
        applied = await self.change(record.order.task, ended, plan=self.plan())
        return applied.record

    async def process(self, task: str) -> TaskRecord:
        """Carry out a task with the steps of `line`."""
        record = await self.start(task)
        for spec in record.order.specs:
            record = await self.end(record, spec.name)
        return record
