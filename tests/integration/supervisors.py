"""A Supervisor on a real table, as one process of the application runs it."""

from __future__ import annotations

import uuid

from azure.data.tables.aio import TableClient

from functions.pattern.definition import Registry
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.request_figures import StoreFigures
from functions.store.announcing import Announcer
from functions.store.conditional_rows import ConditionalRows, TableHeartbeats
from functions.store.entity_groups import EntityGroups
from functions.store.indexes import TableIndexRows, TableTaskIndex
from functions.store.outbox import TableOutbox
from functions.store.state_store import TableStateStore
from functions.store.task_table import TaskTable
from functions.store.task_writer import TaskWriter
from functions.supervisor.crowds import CrowdControl
from functions.supervisor.damage import Damage
from functions.supervisor.parts import SupervisorParts
from functions.supervisor.silence import Silence
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.crowds import RecordedCrowds
from tests.fakes.ports import fake_ports
from tests.fakes.shards import shards_in
from tests.fakes.supervision import POLICY, Queues, RecordedDamage, RecordedRequests
from tests.fakes.times import RecordedSilences
from tests.fakes.workflows import LINE, step, workflow

#: What is deployed, besides `LINE`.
PARCEL = workflow(step("send"))


class Crashed(Exception):  # noqa: N818 - an event, not an error
    """The process crashed here."""


class CrashingAnnouncer:
    """Crashes after a change is recorded, before anything is sent."""

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Crash, unless the task was only recorded."""
        if before is not None:
            raise Crashed(after.order.task)


class Supervisor:
    """One process's Supervisor with its own clock and figures; records what it sends.

    With `crashes` set, it crashes after each change that it records, before anything is sent.
    """

    def __init__(
        self,
        table: TableClient,
        groups: EntityGroups,
        *,
        shards: int = 1,
        instance: str = "one",
        crashes: bool = False,
    ) -> None:
        self.clock = FakeClock()
        self.figures = StoreFigures()
        self.queues = Queues()
        self.requests = RecordedRequests()
        lying = shards_in(table, groups, shards=shards)
        rows = TaskTable(lying, self.figures)
        writer = TaskWriter(rows, clock=self.clock, new_id=_new_id)
        announcer = Announcer(writer, announcements=self.queues, requests=self.requests, clock=self.clock)
        self.store = TableStateStore(rows, writer, CrashingAnnouncer() if crashes else announcer)
        ports = fake_ports(
            clock=self.clock,
            store=self.store,
            index=TableTaskIndex(lying, self.figures),
            index_rows=TableIndexRows(lying, self.figures),
            outbox=TableOutbox(lying, self.figures),
            announcements=self.queues,
            breakers=MemoryBreakerRows(),
            heartbeats=TableHeartbeats(ConditionalRows(table, new_id=_new_id, figures=self.figures)),
        )
        self.index_rows = ports.index_rows
        self.damage = RecordedDamage()
        damage = Damage(ports, self.damage.alert)
        silence = Silence(ports, RecordedSilences().alert)
        crowds = CrowdControl(ports, POLICY, RecordedCrowds().alert)
        registry = Registry((LINE, PARCEL), {})
        parts = SupervisorParts.of(ports, POLICY, registry, instance, damage, silence=silence, crowds=crowds)
        self.sweep, self.full_sweep = parts.sweep.run, parts.full_sweep

    async def record(self, task: TaskId) -> TaskRecord:
        """Read a task that must exist."""
        stored = await self.store.load(task)
        assert stored is not None
        return stored.record


def _new_id() -> str:
    return uuid.uuid4().hex
