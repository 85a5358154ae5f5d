"""The whole application of operators over a table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from functions.agents.gate_releases import ReleasingGates
from functions.core.task_events import StepDeferred
from functions.core.workflow_definition import Workflow
from functions.messaging.intake_measurement import IntakeBounds
from functions.messaging.message_format import QueueMessage
from functions.messaging.queue_depths import Depth, QueueDepth
from functions.messaging.senders import SendError
from functions.operators.operator_routes import operators_application
from functions.operators.overview import OverviewReader
from functions.web.access import Guard
from tests.fakes.clock import START
from tests.unit.operators.conftest import TASK, Desk

BOUNDS = IntakeBounds(most_age=timedelta(minutes=1), most_bytes=1_000)


class Office(Desk):
    """The desk of tasks, with gates, overview and rejected messages. `caller` sends all requests."""

    def __init__(self, *workflows: Workflow[Any], guard: Guard | None = None) -> None:
        super().__init__(*workflows, guard=guard)
        self.sent: list[tuple[str, QueueMessage]] = []
        self.is_sending = True
        self.depths_read = 0
        self.gates = ReleasingGates(
            self.storage,
            settings=self.process.settings,
            now=self.clock.now,
            schedule_release=self._schedule,
        )
        self.application = operators_application(
            self.actions,
            self.gates,
            OverviewReader(
                self.storage,
                self.gates,
                self.registry,
                depths=self._depths,
                bounds=BOUNDS,
                now=self.clock.now,
            ),
            rejected=self.rejected,
            put=self._put,
            figures=lambda: {"service_bus": {"messages": 3}},
            guard=self.guard,
            trace_url_template=None,
        )

    async def _schedule(self, name: str, link: int, at: datetime) -> None:
        """Send no message of a release chain."""

    async def _put(self, queue: str, message: QueueMessage) -> None:
        if not self.is_sending:
            raise SendError(f"queue {queue}: TimeoutError")
        self.sent.append((queue, message))

    async def _depths(self) -> Sequence[QueueDepth]:
        self.depths_read += 1
        full = Depth(100, has_more=True, oldest_at=START, scheduled=2)
        return [QueueDepth("submissions", full, Depth(0, has_more=False, oldest_at=None))]

    async def defer(self, task: str = TASK, step: str = "pick") -> None:
        """Submit a task of `LINE` whose first step waits behind a gate."""
        record = await self.submit(task)
        await self.change(StepDeferred(epoch=record.epoch, step=step), task)

    async def overview(self) -> dict[str, Any]:
        """Return an overview that is read now."""
        self.clock.advance(2)
        answer = await self.get("/overview")
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json
        return found


@pytest.fixture
def office() -> Office:
    """Return an application without tasks."""
    return Office()
