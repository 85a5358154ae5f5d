"""The messages about tasks and their JSON: requests to the Scheduler, notices and alerts. Times are UTC.

Messages to and from child tasks are in the outbox of a task (`functions.core.record.Message`). Each message
may arrive several times, early and late. Duplicate detection compares `id`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, assert_never

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from functions.core.derive import ProcessState
from functions.core.error_texts import faults_text
from functions.core.gate_rules import UNREACHED
from functions.core.record import NAME_PATTERN, NOTICES, Message, MessageKind, scheduler_id
from functions.core.step_rules import OUTCOME_UNKNOWN
from functions.messaging.message_format import (
    STEP_PATTERN,
    MessageError,
    MessageModel,
    QueueMessage,
    TaskId,
    UtcTime,
    read_message,
    short_id,
)
from functions.messaging.queue_names import OPERATOR_ALERTS_QUEUE, SCHEDULER_REQUESTS_QUEUE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Start a run of a task."""

    task: str
    epoch: int
    run: int

    @property
    def id(self) -> str:
        """Return the id of the message, which is also the id of the run's Durable instance."""
        return scheduler_id(self.task, self.epoch, self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeRequest:
    """Examine a task because a wait ends at `at`. The message is delivered from `not_before` on.

    `attempt` counts the messages that arrived early.
    """

    task: str
    at: datetime
    not_before: datetime
    attempt: int = 0

    @property
    def id(self) -> str:
        """Return the id of the message."""
        return f"{self.task}.wake.{self.at:%Y%m%dT%H%M%S.%f}.{self.attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """Release steps that wait behind a gate: link `link` of its release chain, delivered from `at` on.

    A link is sent again for another time if it arrived early or was lost, so its id contains the time.
    """

    gate: str
    link: int
    at: datetime

    @property
    def id(self) -> str:
        """Return the id of the message."""
        return f"{self.gate}.release.{self.link}.{self.at:%Y%m%dT%H%M%S.%f}"


type SchedulerMessage = Message | RunRequest | WakeRequest | ReleaseRequest


class AnnouncementMessage(MessageModel):
    """A notice to a caller, or an alert to operators (`cause`, `gate` and `rows` are for them only).

    `id` is the task. It is empty in an alert about a `gate`, or about corrupt `rows` (reasons by key). The
    `reason` of a notice is a text for callers.
    """

    kind: MessageKind
    id: str
    workflow: str | None = None
    state: str | None = None
    epoch: int | None = None
    at: UtcTime
    correlation_id: str | None = None
    cause: str | None = None
    reason: str | None = None
    output: Any = None
    gate: str | None = None
    rows: dict[str, str] | None = None


class _SchedulerHead(BaseModel):
    """The fields by which the other fields of a message on `scheduler-requests` are read."""

    schema_version: Literal[1]
    kind: Literal["run", "wake", "release", "start child", "cancel child", "child ended"]
    task: TaskId | None = None


_RUN, _WAKE, _RELEASE = TypeAdapter(RunRequest), TypeAdapter(WakeRequest), TypeAdapter(ReleaseRequest)
_CHILD = TypeAdapter(Message)
_READERS: Mapping[str, TypeAdapter[Any]] = {"run": _RUN, "wake": _WAKE, "release": _RELEASE}

#: Callers get this text instead of a reason that may contain an internal text or words of an operator.
WITHHELD = "the operators know the reason"
_PLACE = rf"(the task: |(undo of )?({STEP_PATTERN}: ){{0,3}})"
#: The beginnings of reasons that callers may see. The rest of a reason is for operators.
_PUBLIC = re.compile(
    rf"{_PLACE}({NAME_PATTERN} answered \d{{3}}"
    rf"|{re.escape(OUTCOME_UNKNOWN)}|its outcome is unknown|done, but its result is missing"
    r"|not finished within [0-9.e+]+ s|its deadline passed"
    rf"|overdue after \d+ recover(?:y|ies)|deferred for too long|{re.escape(UNREACHED)}"
    r"|(no event arrived|its task did not end) by [0-9 :-]{19} UTC)(?!\w)"
    r"|(cancelled by its caller|its parent is undone|its task was undone)$"
)


def addressed(message: SchedulerMessage) -> tuple[str, QueueMessage, datetime | None]:
    """Return the queue of a message, the message as its queue receives it, and its first delivery time."""
    match message:
        case RunRequest():
            return SCHEDULER_REQUESTS_QUEUE, _request("run", message.id, _RUN, message), None
        case WakeRequest(not_before=time):
            return SCHEDULER_REQUESTS_QUEUE, _request("wake", message.id, _WAKE, message), time
        case ReleaseRequest(at=time):
            return SCHEDULER_REQUESTS_QUEUE, _request("release", message.id, _RELEASE, message), time
        case Message(kind=MessageKind.ALERT):
            return OPERATOR_ALERTS_QUEUE, _announcement(message, message.body), None
        case Message(kind=kind, body=body) if kind in NOTICES:
            public = {
                **body,
                "state": body.get("state") or ProcessState.PENDING,
                "reason": caller_reason(body.get("reason")),
                "output": None if body.get("output") is None else from_json(str(body["output"])),
            }
            return message.to, _announcement(message, public), None
        case Message(kind=kind):
            return SCHEDULER_REQUESTS_QUEUE, _request(kind, message.id, _CHILD, message), None
        case _:
            assert_never(message)


def read_scheduler_message(body: bytes) -> SchedulerMessage:
    """Return a message of the queue `scheduler-requests`. Raises `MessageError`."""
    head = read_message(_SchedulerHead, body)
    try:
        message: SchedulerMessage = _READERS.get(head.kind, _CHILD).validate_json(body)
    except ValidationError as error:
        raise MessageError(faults_text(error)) from None
    return message


def _request(
    kind: str, message_id: str, adapter: TypeAdapter[Any], message: SchedulerMessage
) -> QueueMessage:
    content = {"schema_version": 1, "kind": kind, **adapter.dump_python(message, mode="json")}
    body = json.dumps(content, separators=(",", ":")).encode()
    return QueueMessage(message_id=short_id(message_id), body=body, subject=kind)


def _announcement(message: Message, facts: Mapping[str, object]) -> QueueMessage:
    known = {name: each for name, each in facts.items() if name in AnnouncementMessage.model_fields}
    announcement = AnnouncementMessage.model_validate(
        {**known, "kind": message.kind, "id": message.task, "at": message.at}
    )
    return QueueMessage(
        message_id=short_id(message.id),
        body=announcement.model_dump_json(exclude_none=True).encode(),
        subject=message.kind,
        correlation_id=announcement.correlation_id,
    )


def caller_reason(reason: object) -> str | None:
    """Return the part of a reason that callers may see, None without a reason."""
    if reason is None:
        return None
    public = _PUBLIC.match(str(reason))
    return public[0] if public else WITHHELD
