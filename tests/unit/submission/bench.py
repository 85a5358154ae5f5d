"""An admission of orders over a simulated table, and the requests and messages that it sends."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from functions.core.definition.step_definition import Results, Step
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.record import RuleSettings, TaskRecord
from functions.messaging.announcer import Announcer
from functions.messaging.message_format import QueueMessage
from functions.messaging.rejected_messages import RejectedMessage, RejectedMessages
from functions.messaging.task_messages import RunRequest, SchedulerMessage
from functions.storage.task_storage import TaskStorage
from functions.submission.admission import Admission, AdmissionResult
from tests.fakes.simulated_table import SimulatedTable
from tests.fakes.storage_process import START


class Parcel(BaseModel):
    """A payload."""

    model_config = ConfigDict(extra="forbid")

    weight: int
    text: str = ""
    items: list[int] = []


class Purchase(BaseModel):
    """A payload with secret fields."""

    card: Annotated[SecretStr, Field(min_length=12)]
    doors: dict[SecretStr, int] = {}


def request(_payload: BaseModel, _results: Results, _item: int = 0) -> dict[str, object]:
    """Return a request."""
    return {}


PICK, SEND = (
    Step("pick", request=request),
    Step("send", request=request, for_each=lambda parcel: parcel.items),
)


def workflow(name: str = "orders", payload: type[BaseModel] = Parcel, **options: Any) -> Workflow[Any]:
    """Return a workflow."""
    return Workflow(name, payload=payload, **{"steps": [PICK], **options})


def findable(find_by: Any = lambda parcel: [f"weight {parcel.weight}"]) -> Workflow[Any]:
    """Return the workflow of orders with search texts."""
    return workflow(find_by=find_by)


def body(task: str = "t-1", **changes: Any) -> bytes:
    """Return an order as JSON. A change to None leaves the field out."""
    fields = {
        "schema_version": 1,
        "task_id": task,
        "workflow": "orders",
        "version": 1,
        "payload": {"weight": 3},
        "submitter": "ann",
        "submitted_at": START.isoformat(),
        **changes,
    }
    return json.dumps({name: each for name, each in fields.items() if each is not None}).encode()


class Bench:
    """An admission, and its surroundings."""

    def __init__(self, *workflows: Workflow[Any]) -> None:
        self.table, self.rejected_table = SimulatedTable(), SimulatedTable()
        self.now = START
        self.runs: list[str] = []
        self.sent: list[SchedulerMessage] = []
        self.put_back: list[tuple[str, QueueMessage, timedelta]] = []
        self.rejected = RejectedMessages(self.rejected_table, lambda: self.now)
        self.settings = RuleSettings()
        self.registry = WorkflowRegistry(workflows or (workflow(), workflow("purchases", Purchase)))
        self._ids = count(1)
        self.restart()

    def restart(self) -> None:
        """Begin a process without a cache."""
        announcer = Announcer(send=self._send, start_run=self._start)
        self.storage = TaskStorage(
            self.table,
            shards=1,
            settings=self.settings,
            now=lambda: self.now,
            new_id=lambda: f"{next(self._ids):08x}abcdef",
            announce=announcer.announce,
            random=Random(1),  # noqa: S311 - it spreads retries
        )
        self.admission = Admission(
            storage=self.storage,
            registry=self.registry,
            rejected=self.rejected,
            announcer=announcer,
            put=self._put,
            settings=self.settings,
            now=lambda: self.now,
            new_id=lambda: f"{next(self._ids):08x}abcdef",
            reply_queues={"notices-demo"},
            retention=timedelta(days=30),
        )

    async def take(self, content: bytes, name: str = "m-1", **properties: Any) -> AdmissionResult:
        """Take a message of the queue."""
        message = QueueMessage(message_id=name, body=content, subject="s", properties=properties)
        return await self.admission.take(message)

    async def record(self, task: str = "t-1") -> TaskRecord:
        """Return a task."""
        record = await self.storage.load(task)
        assert record is not None
        return record

    async def rejections(self) -> list[RejectedMessage]:
        """Return the rejected messages, the oldest first."""
        return list((await self.rejected.listed((), 100)).messages)[::-1]

    async def resent(self, kept: RejectedMessage) -> QueueMessage:
        """Return the message that an operator sends again."""
        resent = await self.rejected.resend(kept.id, "olga", "why")
        assert resent is not None
        assert resent[1] is not None
        return resent[1]

    async def _start(self, run: RunRequest) -> bool:
        self.runs.append(run.id)
        return True

    async def _send(self, message: SchedulerMessage) -> None:
        self.sent.append(message)

    async def _put(self, queue: str, message: QueueMessage, not_before: datetime) -> None:
        self.put_back.append((queue, message, not_before - self.now))
