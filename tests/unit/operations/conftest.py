"""The operators' application over a store in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from functions.operations.application import operators_application
from functions.pattern.definition import Registry
from functions.pattern.identity import TaskId
from functions.pattern.ports import Agent, Pile, QueueDepth
from functions.pattern.records import TaskRecord
from functions.pattern.request_figures import BusFigures, StoreFigures
from functions.pattern.shared_rows import Chore
from functions.web.access import Guard
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import START, FakeClock
from tests.fakes.guards import WIDE, one_caller
from tests.fakes.messages import RecordedPostbox
from tests.fakes.minute_counts import MemoryMinuteCounts
from tests.fakes.ports import fake_ports
from tests.fakes.rejected import MemoryRejected
from tests.fakes.store import MemoryStateStore
from tests.fakes.task_index import MemoryTaskIndex
from tests.fakes.tasks import claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE, TASK

_KEYS = Guard(one_caller("operator"), WIDE, FakeClock())


class SeenQueues:
    """Two queues, one of which can't be looked at."""

    def __init__(self) -> None:
        self.looks = 0

    async def depths(self) -> Sequence[QueueDepth]:
        """Look at both."""
        self.looks += 1
        waiting = Pile(100, more=True, oldest_at=START, scheduled=2)
        empty = Pile(0, more=False, oldest_at=None)
        return [QueueDepth("submissions", waiting, empty), QueueDepth("operator-alerts", None, None)]


class Desk:
    """The application, and what is behind it."""

    def __init__(
        self,
        guard: Guard | None = None,
        *,
        registry: Registry | None = None,
        agents: Mapping[str, Agent] | None = None,
        trace_url_template: str | None = "https://traces.example.com/{trace_id}/all",
    ) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.index = MemoryTaskIndex(self.store)
        self.heartbeat: Mapping[str, Any] | None = None
        self.housekeeping: Mapping[str, Any] | None = None
        self.silence: Mapping[str, Any] | None = None
        self.crowds: Mapping[str, Any] | None = None
        self.intake: Mapping[str, Any] | None = None
        self.rejected, self.postbox = MemoryRejected(self.clock), RecordedPostbox()
        self.breaker_rows = MemoryBreakerRows()
        self.bus_figures = BusFigures()
        self.queues, self.minute_counts = SeenQueues(), MemoryMinuteCounts()
        self.ports = fake_ports(
            clock=self.clock,
            store=self.store,
            index=self.index,
            heartbeats=self,
            breakers=self.breaker_rows,
            queues=self.queues,
            rejected=self.rejected,
            postbox=self.postbox,
            minute_counts=self.minute_counts,
        )
        self.application = operators_application(
            self.ports,
            registry or Registry((LINE,), {}),
            agents or {},
            StoreFigures(),
            self.bus_figures,
            guard=guard or _KEYS,
            start_within=30,
            trace_url_template=trace_url_template,
        )
        self._client = AsgiClient(self.application, headers={"X-Requested-With": "test"})

    async def latest(self, chore: Chore) -> Mapping[str, Any] | None:
        """Give a heartbeat, as the store would."""
        kept = {
            Chore.SWEEP: self.heartbeat,
            Chore.HOUSEKEEPING: self.housekeeping,
            Chore.SILENCE: self.silence,
            Chore.CROWDS: self.crowds,
            Chore.INTAKE: self.intake,
        }
        return kept[chore]

    def holds(self, *records: TaskRecord) -> None:
        """Let the store hold these tasks."""
        for record in records:
            self.store.put(record)

    async def get(self, path: str) -> HttpAnswer:
        """Ask for something below `/api/ops`."""
        return await self._client.get(f"/api/ops{path}")

    async def act(self, action: str, task: str = TASK, *, body: object = None) -> HttpAnswer:
        """Resubmit or undo a task, for a good reason when the test names none."""
        content = {"reason": "the service is back"} if body is None else body
        return await self.post(f"/tasks/{task}/{action}", content)

    async def post(self, path: str, body: object) -> HttpAnswer:
        """Post something below `/api/ops`."""
        return await self._client.post(f"/api/ops{path}", body)


@pytest.fixture
def desk() -> Desk:
    """Make an application without tasks."""
    return Desk()


def in_error(task: str = TASK) -> TaskRecord:
    """Make a task whose second step was refused, and which is held."""
    name = TaskId(task)
    return told(
        pending(LINE, name),
        claimed(task=name),
        started("pick", task=name),
        completed("pick", task=name),
        started("send", task=name),
        failed("send", task=name),
    )


def processed(task: str = TASK) -> TaskRecord:
    """Make a task that was carried out."""
    name = TaskId(task)
    return told(
        pending(LINE, name),
        claimed(task=name),
        started("pick", task=name),
        completed("pick", task=name),
        started("send", task=name),
        completed("send", task=name),
    )
