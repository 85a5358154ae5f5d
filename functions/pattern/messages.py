"""Messages on Service Bus. `docs/schemas/` holds the JSON Schemas of those that Agents get and send."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from functions.pattern.announcements import Announcement
from functions.pattern.definition import NAME_PATTERN, Workflow
from functions.pattern.errors import PayloadTooLargeError
from functions.pattern.identity import TASK_ID_PATTERN, EffectKey, Epoch, StepName, TaskId
from functions.pattern.records import Order
from functions.pattern.states import AnnouncementKind, Direction, Outcome, ProcessState
from functions.pattern.times import UtcTime

SUBMISSIONS_QUEUE = "submissions"
SCHEDULER_REQUESTS_QUEUE = "scheduler-requests"
OPERATOR_ALERTS_QUEUE = "operator-alerts"
AGENT_REPLIES_QUEUE = "agent-replies"

#: An order's payload is kept in one table property of at most 64 KiB; the rest is room for growth.
MAX_PAYLOAD_BYTES = 48 * 1024
#: A reply's reason goes into the task's row; the rest of what a service says is for its own log.
_MOST_REASON_CHARACTERS = 1_000

TaskIdField = Annotated[TaskId, StringConstraints(pattern=TASK_ID_PATTERN)]
CorrelationId = Annotated[str, StringConstraints(min_length=1, max_length=128)]
StepField = Annotated[StepName, Field(pattern=rf"^{NAME_PATTERN}$")]
EpochField = Annotated[Epoch, Field(ge=1)]
Token = Annotated[str, Field(min_length=16, max_length=128)]


class _Message(BaseModel):
    """What every message is: immutable, strict about its fields, and silent about them in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class SubmissionMessage(_Message):
    """An order on its way from the API to the state store. `submitted_at` is UTC."""

    schema_version: Literal[1] = 1
    task_id: TaskIdField
    workflow: str
    payload: dict[str, Any]
    submitter: Annotated[str, Field(max_length=256)]
    submitted_at: UtcTime
    reply_to: str | None = None
    correlation_id: CorrelationId | None = None


def order_of(message: SubmissionMessage, workflow: Workflow) -> Order:
    """Check the payload and make the order. Raises `pydantic.ValidationError` and `PayloadTooLargeError`.

    The payload is serialized from its model: equal content has equal bytes, whatever its fields' order was.
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
    """Make the digest that shows whether two submissions under one id are the same: SHA-256, hexadecimal."""
    digest = hashlib.sha256()
    for part in (workflow.encode(), payload, (reply_to or "").encode()):
        digest.update(len(part).to_bytes(8))
        digest.update(part)
    return digest.hexdigest()


class SchedulerRequest(_Message):
    """Asks for a Scheduler of `epoch`; `queued` are the task's steps behind queues (None in schema 1)."""

    schema_version: Literal[1, 2] = 2
    task_id: TaskIdField
    epoch: EpochField
    queued: tuple[StepField, ...] | None = None


class AnnouncementMessage(_Message):
    """A notice to a caller, or an alert to the operator. `at` is UTC."""

    schema_version: Literal[1] = 1
    kind: AnnouncementKind
    order_id: TaskIdField
    workflow: str
    state: ProcessState
    epoch: EpochField
    at: UtcTime
    correlation_id: CorrelationId | None = None
    reason: str | None = None


def announcement_message(announcement: Announcement) -> AnnouncementMessage:
    """Write an announcement as a message."""
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


def requests_queue(agent: str) -> str:
    """Name the queue on which an Agent gets its requests."""
    return f"agent-{agent}-requests"


class _AgentMessage(_Message):
    """What a reply echoes of its request."""

    schema_version: Literal[1, 2] = Field(
        2, description="2, or 1 of requests before `idempotent`; another number means another schema."
    )
    task_id: TaskIdField = Field(description="The task; a reply echoes it.")
    step: StepField = Field(description="The task's step; a reply echoes it.")
    epoch: EpochField = Field(description="The attempt at the task, from 1 on; a reply echoes it.")
    token: Token = Field(
        repr=False, description="A secret of this request; a reply that does not echo it counts for nothing."
    )


class AgentRequest(_AgentMessage):
    """Asks an Agent to do or to undo a step, until `complete_by` (UTC), under its idempotency key.

    One that is not `idempotent` is sent to the remote service once, however often it arrives.
    """

    direction: Direction = Field(
        description="`do`: carry the step out. `undo`: reverse it, and refuse a late `do`."
    )
    effect_key: EffectKey = Field(
        description="The idempotency key, `{task}/{step}/{direction}`: the same in every attempt."
    )
    complete_by: UtcTime = Field(
        description="From this time on (UTC) nothing may be begun, and no reply is sent,"
        " except one that was `idempotent: false` and has a known outcome."
    )
    idempotent: bool = Field(
        True,
        description="Whether the service may be called again. `false`: it is called once, also when the"
        " request arrives again. Always `true` in schema 1.",
    )
    request: dict[str, Any] = Field(description="What to do, as the workflow's step says it.")


class AgentReply(_AgentMessage):
    """The outcome of a request: done, with its `result`, or refused for good, with its `error`.

    A transient failure, or work not done by complete-by, gets no reply at all; what is known of a request
    that is not `idempotent` is replied, however late.
    """

    outcome: Literal[Outcome.COMPLETED, Outcome.FAILED] = Field(
        description="`completed`: it is done, or undone. `failed`: it is refused for good."
    )
    result: dict[str, Any] = Field(
        default_factory=dict,
        description="What later steps need to know, at most 24 KiB as compact JSON; of `completed` only.",
    )
    error: str = Field(
        "", max_length=_MOST_REASON_CHARACTERS, description="The reason, for the operator; of `failed` only."
    )


def reply_to(
    request: AgentRequest,
    outcome: Literal[Outcome.COMPLETED, Outcome.FAILED],
    *,
    result: dict[str, Any] | None = None,
    error: str = "",
) -> AgentReply:
    """Answer a request, echoing what makes the answer count."""
    return AgentReply(
        schema_version=request.schema_version,
        task_id=request.task_id,
        step=request.step,
        epoch=request.epoch,
        token=request.token,
        outcome=outcome,
        result=result or {},
        error=error[:_MOST_REASON_CHARACTERS],
    )


def seconds_left(complete_by: datetime, now: datetime) -> float:
    """Give the time to live of a request, in seconds; 0 when it is too late."""
    return max(0.0, (complete_by - now).total_seconds())
