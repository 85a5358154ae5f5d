"""Messages between the parts of the pattern, as they travel on Service Bus."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from functions.pattern.announcements import Announcement
from functions.pattern.definition import Workflow
from functions.pattern.errors import PayloadTooLargeError
from functions.pattern.identity import TASK_ID_PATTERN, Epoch, TaskId
from functions.pattern.records import Order
from functions.pattern.states import AnnouncementKind, ProcessState

SUBMISSIONS_QUEUE = "submissions"
SCHEDULER_REQUESTS_QUEUE = "scheduler-requests"
OPERATOR_ALERTS_QUEUE = "operator-alerts"

#: An order's payload is kept in one table property of at most 64 KiB; the rest is room for growth.
MAX_PAYLOAD_BYTES = 48 * 1024

TaskIdField = Annotated[TaskId, StringConstraints(pattern=TASK_ID_PATTERN)]
CorrelationId = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class SubmissionMessage(BaseModel):
    """An order on its way from the API to the state store. `submitted_at` is UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    schema_version: Literal[1] = 1
    task_id: TaskIdField
    workflow: str
    payload: dict[str, Any]
    submitter: Annotated[str, Field(max_length=256)]
    submitted_at: datetime
    reply_to: str | None = None
    correlation_id: CorrelationId | None = None


def order_of(message: SubmissionMessage, workflow: Workflow) -> Order:
    """Check the payload against its workflow and make the order of it.

    The payload is written anew from its model, so that equal content has equal bytes whatever the
    order of its fields was. Raises `pydantic.ValidationError` and `PayloadTooLargeError`.
    """
    payload = workflow.payload.model_validate(message.payload).model_dump_json().encode()
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLargeError(f"payload: more than {MAX_PAYLOAD_BYTES} bytes")
    return Order(
        task=message.task_id,
        workflow=workflow.name,
        workflow_version=workflow.version,
        payload=payload,
        digest=content_digest(workflow.name, payload, message.reply_to),
        submitter=message.submitter,
        submitted_at=message.submitted_at,
        on_failure=workflow.on_failure,
        on_exhausted=workflow.on_exhausted,
        reply_to=message.reply_to,
        correlation_id=message.correlation_id,
    )


def content_digest(workflow: str, payload: bytes, reply_to: str | None) -> str:
    """Tell whether two submissions under one id ask for the same: SHA-256, hexadecimal."""
    digest = hashlib.sha256()
    for part in (workflow.encode(), payload, (reply_to or "").encode()):
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()


class SchedulerRequest(BaseModel):
    """Asks for a Scheduler to run a task in `epoch`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    schema_version: Literal[1] = 1
    task_id: TaskIdField
    epoch: Annotated[Epoch, Field(ge=1)]


class AnnouncementMessage(BaseModel):
    """A notice to a caller, or an alert to the operator. `at` is UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    schema_version: Literal[1] = 1
    kind: AnnouncementKind
    order_id: TaskIdField
    workflow: str
    state: ProcessState
    epoch: Annotated[Epoch, Field(ge=1)]
    at: datetime
    correlation_id: CorrelationId | None = None
    reason: str | None = None


def announcement_message(announcement: Announcement) -> AnnouncementMessage:
    """Write an announcement as the message that tells it."""
    return AnnouncementMessage(
        kind=announcement.kind,
        order_id=announcement.task,
        workflow=announcement.workflow,
        state=announcement.state,
        epoch=announcement.epoch,
        at=announcement.at,
        correlation_id=announcement.correlation_id,
        reason=announcement.reason,
    )
