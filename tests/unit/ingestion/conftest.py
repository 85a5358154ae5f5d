"""The function `ingestion` with all that it works on; its events come as the host passes them."""

from __future__ import annotations

import asyncio
from inspect import unwrap
from typing import Any

import azure.functions as func
import pytest

from functions.ingestion.batch import EventBatches
from functions.ingestion.blueprint import ingestion_blueprint
from functions.operations.alerts.alerts import Alert, Alerts
from functions.operations.alerts.queues import DeadLetters
from functions.pattern.definition import Registry
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import Admitted, StateStore
from functions.submission.intake import Intake
from tests.fakes.clock import FakeClock
from tests.fakes.messages import RecordedPostbox
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.store import MemoryStateStore
from tests.fakes.workflows import DIAMOND, submission

HUB = "order-events"


class HubStore(MemoryStateStore):
    """Counts what a replay costs, and fails for some tasks: as a service does, or as a defect would."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.admitted: list[TaskId] = []
        self.admit_faults: dict[TaskId, Exception] = {}
        self.now = self.most = 0
        self.hold: asyncio.Event | None = None

    async def admit(self, record: TaskRecord) -> Admitted:
        """Record a new task, or fail as is set."""
        task = record.order.task
        self.admitted.append(task)
        if task in self.admit_faults:
            raise self.admit_faults[task]
        self.now += 1
        self.most = max(self.most, self.now)
        await (asyncio.sleep(0) if self.hold is None else self.hold.wait())
        self.now -= 1
        return await super().admit(record)


class CountedStarts(RecordedSchedulers):
    """Counts starts that are under way at one time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.most = 0
        self.fault: Exception | None = None

    async def start(self, task: TaskId, epoch: Epoch, queued: Any, *, run: int | None = None) -> None:
        """Start an instance, which takes a moment."""
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        if self.fault is not None:
            raise self.fault
        queued_steps: tuple[StepName, ...] = tuple(queued)
        await super().start(task, epoch, queued_steps, run=run)


class Bench:
    """The function over a store, in memory unless one is given."""

    def __init__(self, store: StateStore | None = None) -> None:
        self.clock = FakeClock()
        self.store = HubStore(self.clock)
        self._used = store or self.store
        self.rejected = RecordedRejections()
        self.schedulers = CountedStarts()
        self.postbox = RecordedPostbox()
        self.alerts: list[Alert] = []
        self.restart()

    def restart(self) -> None:
        """Begin with a new process: what the one before remembered is gone."""
        ports = fake_ports(store=self._used, rejected=self.rejected, clock=self.clock, postbox=self.postbox)
        intake = Intake(ports, Registry((DIAMOND,), {}), (), pick_up_within=60, retention_days=30)
        batches = EventBatches(HUB, intake, ports, DeadLetters(ports, Alerts(self._post)).lose)
        blueprint = ingestion_blueprint(HUB, "ingestion", batches, lambda _: self.schedulers)
        self.built = [each.build() for each in blueprint._function_builders]
        self._function = unwrap(self.built[0].get_user_function())

    async def take(self, events: list[func.EventHubEvent]) -> None:
        """Take a batch as the host has the function take it."""
        await self._function(events, None)

    async def _post(self, alert: Alert) -> None:
        self.alerts.append(alert)


def order(task: str, **changes: Any) -> bytes:
    """Write an order as a producer does."""
    return submission(task=TaskId(task), **changes).written


@pytest.fixture
def bench() -> Bench:
    """Make a function that has taken nothing."""
    return Bench()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon on a service that fails: only where one does, since a busy machine is slow too."""
    monkeypatch.setattr("functions.ingestion.batch._PATIENCE_SECONDS", 0.05)
