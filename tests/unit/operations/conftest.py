"""The operators' application over a store in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from functions.figures import BusFigures, StoreFigures
from functions.operations.actions import Actions
from functions.operations.application import operators_application
from functions.operations.routes import operator_routes
from functions.operations.summary import Overview
from functions.operations.tasks import Tasks
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.store import MemoryStateStore
from tests.fakes.task_index import MemoryTaskIndex
from tests.fakes.tasks import claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE, TASK


class Desk:
    """The application, and what is behind it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.index = MemoryTaskIndex(self.store)
        self.heartbeat: Mapping[str, Any] | None = None
        self.breaker_rows = MemoryBreakerRows()
        self.bus_figures = BusFigures()
        tasks = Tasks(store=self.store, index=self.index)
        actions = Actions(tasks=tasks, store=self.store, clock=self.clock, start_within=30)
        overview = Overview(index=self.index, heartbeats=self, breakers=self.breaker_rows, clock=self.clock)
        routes = operator_routes(tasks, actions, overview)
        self._client = AsgiClient(operators_application(StoreFigures(), self.bus_figures, routes))

    async def latest(self) -> Mapping[str, Any] | None:
        """Give the Supervisor's heartbeat, as the store would."""
        return self.heartbeat

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
        return await self._client.post(f"/api/ops/tasks/{task}/{action}", content)


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
