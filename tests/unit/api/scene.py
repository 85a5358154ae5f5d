"""The callers' application over a table in memory, tasks in any state, and checks of answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from functions.api.callers_application import callers_application
from functions.api.event_routes import Events
from functions.api.orders import Orders
from functions.core.definition.step_definition import BaseStep, EventStep, QueueStep, Step
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.record import RuleSettings, TaskRecord
from functions.core.rules import admit
from functions.core.task_events import Cancelled, Canceller, Event, OutcomeKind, StepStarted
from functions.http.access import Guard, RequestCheck
from functions.messaging.announcer import Announcer
from functions.messaging.message_format import SubmissionMessage, payload_text
from functions.storage.task_storage import TaskStorage
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.clock import FakeClock
from tests.fakes.guards import KEYS
from tests.fakes.simulated_table import SimulatedTable
from tests.unit.core.builders import end

ITEM: dict[str, Any] = {"sku": "TEA-250", "quantity": 2, "unit_price": "4.90"}
ORDER: dict[str, Any] = {"customer": "C-1042", "currency": "EUR", "items": [ITEM]}


class WithoutSchema(BaseModel):
    """A model that has no JSON schema."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    field: range | None = None
    text: str = ""


INSIDE = ("Traceback", "functions.", "pydantic", "azure", "sqlite", "/work", "site-packages", "Error(")


class Priced(BaseModel):
    """A model whose validator raises `decimal.InvalidOperation`, which is no `ValueError`."""

    price: Annotated[str, AfterValidator(lambda price: str(Decimal(price)))]


def problem(answer: HttpAnswer, status: int) -> dict[str, Any]:
    """Check that the answer is a problem document of `status` without anything of the inside, and give it."""
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json
    assert document["status"] == status
    assert document["title"]
    assert not [word for word in INSIDE if word in answer.body.decode()]
    return document


def wrong_fields(answer: HttpAnswer) -> list[str]:
    """Check that the answer is a 422, and name the fields that it names."""
    return [fault["field"] for fault in problem(answer, 422)["errors"]]


TASK = "task-1"
_Text = Annotated[str, Field(min_length=1, max_length=100)]


class Item(BaseModel):
    """One line of an order."""

    model_config = ConfigDict(extra="forbid")

    sku: _Text
    quantity: Annotated[int, Field(strict=True, ge=1)]
    unit_price: str


class OrderPayload(BaseModel):
    """The payload of an order."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"customer": "C-1042"}]})

    customer: _Text
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    items: Annotated[tuple[Item, ...], Field(min_length=1)]


class Parcel(BaseModel):
    """A payload whose weight is also the number of its items."""

    weight: int = 1


class Approval(BaseModel):
    """The body of an event."""

    model_config = ConfigDict(extra="forbid")

    approved: bool


def request(_payload: Any, _results: Any, item: int | None = None) -> dict[str, object]:
    """Return a request."""
    return {"item": item}


ORDERS = Workflow(
    "orders",
    payload=OrderPayload,
    steps=[QueueStep("payment", request=request, complete_within=60, undo=True)],
)


def parcels(*steps: BaseStep[Any], payload: type[BaseModel] = Parcel, **options: Any) -> Workflow[Any]:
    """Return a workflow of parcels."""
    return Workflow("parcels", payload=payload, steps=steps or [Step("open", request=request)], **options)


def bookings(
    role: str = "Operator", event: type[BaseModel] = Approval, version: int = 1, name: str = "approve"
) -> Workflow[Any]:
    """Return a workflow whose second step waits for an event."""
    room = Step("room", request=request, undo=True)
    wait = EventStep(name, needs=[room], event=event, complete_within=3600, role=role)
    return Workflow(
        "booking",
        payload=Parcel,
        steps=[room, wait],
        resource="bookings",
        noun="booking",
        on_failure="keep",
        version=version,
        cancel_within=60,
    )


class Api:
    """The application for some workflows, and everything behind it."""

    def __init__(
        self, *workflows: Workflow[Any], guard: Guard = KEYS, intake: RequestCheck | None = None
    ) -> None:
        self.clock, self.table = FakeClock(), SimulatedTable()
        self.settings = RuleSettings()
        self.submitted: list[SubmissionMessage] = []
        self.failure: BaseException | None = None
        self.fails_for: set[str] | None = None
        self.store_fault: Exception | None = None
        self._guard, self._intake = guard, intake
        self._ids = count(1)
        self.storage = TaskStorage(
            self.table,
            shards=2,
            settings=self.settings,
            now=self.clock.now,
            new_id=lambda: f"id{next(self._ids)}",
            announce=Announcer(send=_nothing, start_run=_nothing).announce,
        )
        new_ids = count(1)
        self.orders = Orders(
            storage=self.storage,
            submit=self._submit,
            now=self.clock.now,
            new_id=lambda: f"new-{next(new_ids)}",
            reply_queues={"notices-demo"},
        )
        self.workflows = workflows or (ORDERS, parcels())
        self.client = self.serving(*self.workflows)

    def serving(self, *workflows: Workflow[Any], headers: dict[str, str] | None = None) -> AsgiClient:
        """Return a client of the application with other workflows or for another caller."""
        return AsgiClient(self.application(*workflows), headers)

    def application(self, *workflows: Workflow[Any]) -> Any:
        """Return an application over the same table."""
        registry = WorkflowRegistry(workflows or self.workflows)
        events = Events(storage=self.storage, registry=registry, now=self.clock.now)
        return callers_application(
            registry, self.orders, events, self._check_store, guard=self._guard, intake=self._intake
        )

    async def _submit(self, messages: Sequence[SubmissionMessage]) -> Sequence[BaseException | None]:
        faults = [self._fault(message.task_id) for message in messages]
        self.submitted += [each for each, fault in zip(messages, faults, strict=True) if fault is None]
        return faults

    def _fault(self, task: str) -> BaseException | None:
        return self.failure if self.fails_for is None or task in self.fails_for else None

    async def _check_store(self) -> None:
        if self.store_fault is not None:
            raise self.store_fault

    async def admit(
        self, workflow: Workflow[Any], task: str = TASK, *, reserved: str | None = None, **fields: Any
    ) -> TaskRecord:
        """Record a task, by default of the caller `tester`."""
        order = workflow.new_order(
            task, "r1", fields.pop("payload", "{}"), self.clock.now(), **{"submitter": "tester", **fields}
        )
        record = admit(order, self.clock.now(), self.settings)
        return (await self.storage.admit(record, reserved=reserved))[0]

    async def admit_submitted(self) -> None:
        """Record the submitted orders."""
        for each in self.submitted:
            fields = {"content": each.digest, "submitter": each.submitter, "reply_to": each.reply_to}
            payload = payload_text(each.payload)
            await self.admit(ORDERS, each.task_id, reserved=each.reservation, payload=payload, **fields)

    async def change(self, *events: Event) -> TaskRecord:
        """Record events that are accepted."""
        record = await self.record()
        for event in events:
            until = self.clock.now() + timedelta(seconds=30)
            applied = await self.storage.change(TASK, event, until=until)
            assert applied.rejection is None, applied.rejection
            record = applied.record
        return record

    async def start(self, step: str, seconds: float = 30) -> TaskRecord:
        """Record the start of a step, with its deadline in some seconds."""
        record, complete_by = await self.record(), self.clock.now() + timedelta(seconds=seconds)
        return await self.change(
            StepStarted(
                epoch=record.epoch,
                run=record.run,
                step=step,
                start_id=f"start of {step}",
                complete_by=complete_by,
                request="{}",
            )
        )

    async def run(self, step: str, kind: OutcomeKind = OutcomeKind.DONE, error: str = "no") -> TaskRecord:
        """Record the start of a step and its outcome."""
        error_of = None if kind is OutcomeKind.DONE else error
        return await self.change(end(await self.start(step), step, kind, error=error_of))

    async def wait_for_approval(self, workflow: Workflow[Any], **fields: Any) -> TaskRecord:
        """Record a task of bookings that waits for its event."""
        await self.admit(workflow, **fields)
        await self.run("room")
        return await self.start("approve", 3600)

    async def record(self) -> TaskRecord:
        """Return the task."""
        record = await self.storage.load(TASK)
        assert record is not None
        return record


CANCELLED = Cancelled(by=Canceller.OPERATOR, who="op", reason="because")


async def _nothing(*_: Any) -> Any:
    """Send nothing."""
