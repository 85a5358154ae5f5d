"""The operators' application over a table in memory, and tasks in all states."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import BaseModel

from functions.core.definition.step_definition import EventStep, Results, Step
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry, search_key
from functions.core.plan import RunLimits, output_of, plan
from functions.core.record import ClosedEpoch, RuleSettings, TaskRecord
from functions.core.rules import Plan, admit
from functions.core.task_events import Due, Event, OutcomeKind, RunStarted, StepDeferred
from functions.http.access import Caller, Guard, Role, identify_as
from functions.messaging.intake_measurement import IntakeBounds
from functions.messaging.message_format import QueueMessage
from functions.messaging.queue_depths import Depth, QueueDepth
from functions.messaging.rejected_messages import RejectedMessages
from functions.messaging.senders import SendError
from functions.operators.operator_routes import operators_application
from functions.operators.overview import OverviewReader
from functions.operators.task_actions import TaskActions
from functions.operators.task_page import read_epochs
from functions.storage.gates import Gates
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.clock import START, FakeClock
from tests.fakes.guards import WIDE
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.storage_process import StorageProcess, new_id
from tests.unit.core.builders import end

TASK = "task-1"
SHARDS = 3
BOUNDS = IntakeBounds(most_age=timedelta(minutes=1), most_bytes=1_000)


class Parcel(BaseModel):
    """The payload of most tests."""

    weight: int = 3
    items: list[int] = []


class Receipt(BaseModel):
    """The result of a payment."""

    receipt: str


class Approval(BaseModel):
    """The event of a booking."""

    approved: bool


def request(parcel: Parcel, _results: Results) -> dict[str, object]:
    """Return the request of a step."""
    return {"weight": parcel.weight}


def items_of(parcel: Parcel) -> list[int]:
    """Return the items of a for-each step."""
    return parcel.items


PICK = Step("pick", request=request)
LINE = Workflow("line", payload=Parcel, steps=[PICK, Step("send", request=request, needs=[PICK])])
FLIGHT = Step("flight", request=request, undo=True)
HOTEL = Step("hotel", request=request, needs=[FLIGHT])
TRIP = Workflow(
    "trip", payload=Parcel, steps=[FLIGHT, HOTEL, Step("car", request=request, needs=[HOTEL], undo=True)]
)
PAY = Step("pay", request=request, result=Receipt, idempotent=False, complete_within=5)


def mail(_parcel: Parcel, results: Results) -> dict[str, object]:
    """Return a request that needs the receipt of the payment."""
    return {"about": results[PAY].receipt.split("-")[1]}


PAYING = Workflow("paying", payload=Parcel, steps=[PAY, Step("mail", request=mail, needs=[PAY])])
ROOM = Step("room", request=request)
APPROVE = EventStep(
    "approve", event=Approval, complete_within=3600, needs=[ROOM], role="Approver", on_timeout="keep"
)
BOOKING = Workflow("booking", payload=Parcel, steps=[ROOM, APPROVE])


_OPERATOR = Caller("operator", frozenset(Role), has_every_role=True)


class Desk:
    """The application, and the storage behind it. `guard` decides which caller sends all requests."""

    def __init__(
        self,
        *workflows: Workflow[Any],
        guard: Guard | None = None,
        url: str | None = None,
        table: IndexedTable | None = None,
    ) -> None:
        self.sent: list[tuple[str, QueueMessage]] = []
        self.is_sending, self.depths_read = True, 0
        self.clock, self.table = FakeClock(), table or IndexedTable()
        self.registry = WorkflowRegistry(workflows or (LINE, TRIP, PAYING, BOOKING))
        settings = RuleSettings(make_output=lambda record: output_of(record, self.registry))
        self.process = StorageProcess(self.table, self.clock.now, shards=SHARDS, settings=settings)
        self.storage = self.process.storage
        self.rejected = RejectedMessages(IndexedTable(), self.clock.now)
        self.actions = TaskActions(
            storage=self.storage,
            registry=self.registry,
            settings=settings,
            now=self.clock.now,
        )
        gates = Gates(self.storage, settings=settings, now=self.clock.now, schedule_release=self._schedule)
        overview = OverviewReader(
            self.storage, gates, self.registry, depths=self._depths, bounds=BOUNDS, now=self.clock.now
        )
        self.gates = gates
        self.application = operators_application(
            self.actions,
            gates,
            overview,
            rejected=self.rejected,
            put=self._put,
            figures=lambda: {"service_bus": {"messages": 3}},
            guard=guard or Guard(identify_as(_OPERATOR), WIDE),
            trace_url_template=url,
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

    def redeployed(self, *workflows: Workflow[Any], **others: Any) -> Desk:
        """Return the routes of an instance with other workflows, over the same table."""
        return Desk(*workflows, table=self.table, **others)

    @staticmethod
    def at(seconds: float) -> str:
        """Return the time some seconds after the start as JSON."""
        return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")

    # Requests

    def client(self, **headers: str) -> AsgiClient:
        """Return a client with further headers."""
        return AsgiClient(self.application, {"X-Requested-With": "test", **headers})

    async def get(self, path: str) -> HttpAnswer:
        """Send a GET below `/api/ops`."""
        return await self.client().get(f"/api/ops{quote(path, safe='/?=&%+')}")

    async def post(self, path: str, body: object) -> HttpAnswer:
        """Send a POST below `/api/ops`."""
        return await self.client().post(f"/api/ops{path}", body)

    async def act(self, action: str, task: str = TASK, **body: object) -> HttpAnswer:
        """Act on a task, by default because a service is back."""
        return await self.post(f"/tasks/{task}/{action}", {"reason": "it is back", **body})

    # Tasks

    async def submit(
        self,
        task: str = TASK,
        flow: Workflow[Any] = LINE,
        payload: str = "{}",
        *,
        texts: Sequence[str] = (),
        **order: Any,
    ) -> TaskRecord:
        """Admit a task, which is found by `texts`."""
        now, keys = self.clock.now(), [search_key(text) for text in texts]
        made = flow.new_order(task, "r1", payload, now, **{"submitter": "tester", **order})
        return (await self.storage.admit(admit(made, now, self.process.settings), keys))[0]

    async def run(self, task: str = TASK) -> TaskRecord:
        """Start the newest run of a task with all ready steps."""
        record = await self.record(task)
        return await self.change(RunStarted(epoch=record.epoch, run=record.run), task, plans=True)

    async def end(
        self,
        step: str,
        task: str = TASK,
        *,
        error: str | None = None,
        kind: OutcomeKind | None = None,
        **fields: Any,
    ) -> TaskRecord:
        """Record the outcome of a step, by default done, with the starts that follow."""
        kind = kind or (OutcomeKind.DONE if error is None else OutcomeKind.REFUSED)
        given = {"error": error, "result": "{}" if error is None else None, **fields}
        ended = end(await self.record(task), step, kind, **given)
        return await self.change(ended, task, plans=True)

    async def change(self, event: Event, task: str = TASK, *, plans: bool = False) -> TaskRecord:
        """Record an event, if `plans` with the starts that follow."""
        record = await self.record(task)
        applied = await self.process.change(task, event, plan=self._plan(record) if plans else None)
        assert applied.rejection is None, applied.rejection
        return applied.record

    def _plan(self, record: TaskRecord) -> Plan:
        limits = RunLimits(
            epoch=record.epoch,
            run=record.run,
            room=90,
            ends_at=datetime.max.replace(tzinfo=UTC),
            new_id=new_id,
            gate=lambda _name: None,
        )
        return lambda newest, now: plan(newest, limits, self.registry, now)

    async def processed(self, task: str = TASK, **order: Any) -> TaskRecord:
        """Process a task of `LINE`."""
        await self.submit(task, **order)
        await self.run(task)
        await self.end("pick", task)
        return await self.end("send", task)

    async def in_error(self, task: str = TASK, error: str = "no money", **order: Any) -> TaskRecord:
        """Refuse the second step of a task of `LINE`."""
        await self.submit(task, **order)
        await self.run(task)
        await self.end("pick", task)
        return await self.end("send", task, error=error)

    async def in_question(self, flow: Workflow[Any] = PAYING, task: str = TASK) -> TaskRecord:
        """Stop a task whose payment has an unknown outcome."""
        await self.submit(task, flow)
        await self.run(task)
        self.clock.advance(60)
        return await self.change(Due(may_recover=True), task)

    async def record(self, task: str = TASK) -> TaskRecord:
        """Return a task as it is in the table."""
        record = await self.storage.load(task)
        assert record is not None
        return record

    async def defer(self, task: str = TASK) -> None:
        """Submit a task of `LINE` whose first step waits behind a gate."""
        record = await self.submit(task)
        await self.change(StepDeferred(epoch=record.epoch, step="pick"), task)

    async def overview(self) -> dict[str, Any]:
        """Return an overview that is read now."""
        self.clock.advance(2)
        await asyncio.sleep(2)
        answer = await self.get("/overview")
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json
        return found

    async def epochs(self, task: str = TASK) -> Sequence[ClosedEpoch]:
        """Return the closed epochs of a task."""
        return (await read_epochs(self.storage, task)).entries


@pytest.fixture
def desk() -> Desk:
    """Return routes without tasks."""
    return Desk()
