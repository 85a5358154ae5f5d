"""Messages on Service Bus; `agent_messages.py` holds those that Agents get and send."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from functions.pattern.announcements import Announcement
from functions.pattern.definition import NAME_PATTERN, STEP_PATTERN, Workflow
from functions.pattern.errors import PayloadTooLargeError
from functions.pattern.identity import TASK_ID_PATTERN, Birth, Epoch, StepName, TaskId
from functions.pattern.records import Order
from functions.pattern.search_keys import search_keys
from functions.pattern.states import AnnouncementKind, ProcessState
from functions.pattern.times import UtcTime

SUBMISSIONS_QUEUE = "submissions"
SCHEDULER_REQUESTS_QUEUE = "scheduler-requests"
OPERATOR_ALERTS_QUEUE = "operator-alerts"
AGENT_REPLIES_QUEUE = "agent-replies"

#: An order's payload is kept in one table property of at most 64 KiB; the rest is room for growth.
MAX_PAYLOAD_BYTES = 48 * 1024
#: A message id holds at most 128 characters (Service Bus); 64 are the task id's.
_DIGEST_CHARACTERS = 32
#: How long a submission waits the first time and at most, and how often: that makes a day.
_FIRST_PUT_BACK = timedelta(seconds=10)
_LONGEST_PUT_BACK = timedelta(minutes=30)
_MOST_PUT_BACK = 55
_MOST_DOUBLINGS = 8

TaskIdField = Annotated[TaskId, StringConstraints(pattern=TASK_ID_PATTERN)]
#: It stands in headers, logs and traces of whoever gets a notice, so that it holds no control characters.
CorrelationId = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")
]
StepField = Annotated[StepName, Field(pattern=rf"^{NAME_PATTERN}$")]
#: A step of a task, which may be an item of a for-each step.
TaskStepField = Annotated[StepName, Field(pattern=rf"^{STEP_PATTERN}$")]
EpochField = Annotated[Epoch, Field(ge=1)]


class Message(BaseModel):
    """What every message is: immutable, strict about its fields, and silent about them in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class SubmissionMessage(Message):
    """An order on its way from the API to the state store. `submitted_at` is UTC.

    The payload is the caller's own JSON, as it came: it is read through the model wherever it is used.
    Without a `version`, it is for the newest that is deployed.
    """

    schema_version: Literal[1] = 1
    task_id: TaskIdField
    workflow: str
    version: Annotated[int, Field(ge=1)] | None = None
    payload: dict[str, Any]
    submitter: Annotated[str, Field(max_length=256)]
    submitted_at: UtcTime
    reply_to: str | None = None
    correlation_id: CorrelationId | None = None

    @cached_property
    def content(self) -> bytes:
        """Write the payload as JSON: equal content has equal bytes, whatever its fields' order was."""
        text = json.dumps(self.payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode()

    @property
    def message_id(self) -> str:
        """Name the message: other content under the same id is no duplicate."""
        return f"{self.task_id}.{self.digest[:_DIGEST_CHARACTERS]}"

    @property
    def written(self) -> bytes:
        """Write the message's body."""
        return self.model_dump_json(exclude_none=True).encode()

    @cached_property
    def digest(self) -> str:
        """Make the digest that shows whether two submissions under one id are the same."""
        return content_digest(self.workflow, self.content, self.reply_to)


def put_back_for(put_back: int) -> timedelta | None:
    """Tell how long a submission waits whose version is not deployed here; None after about a day."""
    if put_back >= _MOST_PUT_BACK:
        return None
    return min(_FIRST_PUT_BACK * (1 << min(put_back, _MOST_DOUBLINGS)), _LONGEST_PUT_BACK)


@dataclass(frozen=True, slots=True)
class Checked:
    """What is recorded beside a payload: how many items its for-each steps have, and which; search keys."""

    items: tuple[int, ...]
    item_digests: tuple[str, ...]
    search_keys: tuple[str, ...]


def check_payload(message: SubmissionMessage, workflow: Workflow) -> Checked:
    """Check a payload before it is recorded.

    Raises `pydantic.ValidationError`, `PayloadTooLargeError` and `UnfitOrderError`.
    """
    if len(message.content) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(f"payload: more than {MAX_PAYLOAD_BYTES} bytes")
    payload = workflow.payload.model_validate_json(message.content)
    items, digests = workflow.count_items(payload)
    return Checked(items, digests, search_keys(workflow, payload, workflow.count_steps(items)))


def order_of(message: SubmissionMessage, workflow: Workflow, birth: Birth) -> Order:
    """Check the payload and make the order. Raises as `check_payload` does."""
    checked = check_payload(message, workflow)
    return Order(
        task=message.task_id,
        birth=birth,
        workflow=workflow.name,
        workflow_version=workflow.version,
        shape=workflow.shape,
        payload=message.content,
        digest=message.digest,
        submitter=message.submitter,
        submitted_at=message.submitted_at,
        reply_to=message.reply_to,
        correlation_id=message.correlation_id,
        items=checked.items,
        item_digests=checked.item_digests,
        search_keys=checked.search_keys,
    )


def content_digest(workflow: str, payload: bytes, reply_to: str | None) -> str:
    """Make the digest that shows whether two submissions under one id are the same: SHA-256, hexadecimal."""
    digest = hashlib.sha256()
    for part in (workflow.encode(), payload, (reply_to or "").encode()):
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()


class SchedulerRequest(Message):
    """Asks for the Scheduler of a run, or has it hear of a step that ended without it (`wake`).

    `queued` are the task's steps of which something comes from outside. An epoch's first
    `run` is None. Of a task that has `ended`, its parent has to hear.
    """

    schema_version: Literal[1] = 1
    task_id: TaskIdField
    epoch: EpochField
    queued: tuple[TaskStepField, ...] = ()
    run: Annotated[int, Field(ge=1)] | None = None
    wake: TaskStepField | None = None
    ended: bool = False


class AnnouncementMessage(Message):
    """A notice to a caller, `completed` with its `answer`, or an alert to the operator. `at` is UTC."""

    schema_version: Literal[1] = 1
    kind: AnnouncementKind
    id: TaskIdField
    workflow: str
    state: ProcessState
    epoch: EpochField
    at: UtcTime
    correlation_id: CorrelationId | None = None
    reason: str | None = None
    answer: dict[str, Any] | None = None


def announcement_message(announcement: Announcement) -> AnnouncementMessage:
    """Write an announcement as a message."""
    return AnnouncementMessage(
        kind=announcement.kind,
        id=announcement.task,
        workflow=announcement.workflow,
        state=announcement.state,
        epoch=announcement.epoch,
        at=announcement.at,
        correlation_id=announcement.correlation_id,
        reason=announcement.reason,
        answer=None if announcement.answer is None else dict(announcement.answer),
    )


def requests_queue(agent: str) -> str:
    """Name the queue on which an Agent gets its requests."""
    return f"agent-{agent}-requests"


def seconds_left(complete_by: datetime, now: datetime) -> float:
    """Give the time to live of a request, in seconds; 0 when it is too late."""
    return max(0.0, (complete_by - now).total_seconds())
