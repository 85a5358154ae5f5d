"""Messages of queues, and orders as JSON in UTF-8, schema version 1.

Times are UTC. `task_messages.py` has the other messages of the application, `agent_messages.py` those of
Agents.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from functions.core.error_texts import faults_text
from functions.core.json_values import UnfitValueError, json_text
from functions.core.record import NAME_PATTERN
from functions.telemetry.spans import trace_headers

#: Bytes of a message: the limit of the standard tier of Service Bus, less its headers.
MOST_MESSAGE_BYTES = 256 * 1024 - 8 * 1024
#: Characters of the id of a message (Service Bus).
MOST_ID_CHARACTERS = 128
#: Bytes of the payload of an order, as JSON in UTF-8.
MOST_PAYLOAD_BYTES = 48 * 1024
#: Orders in one message. `host.json` limits the messages of one invocation accordingly.
MOST_IN_GROUP = 25
#: Bytes of a message with several orders: the Standard tier accepts 256 KB, headers included.
_MOST_GROUP_BYTES = 190_000
DIGEST_CHARACTERS = 32

#: Task ids are parts of keys of rows, ids of messages and URLs.
TASK_ID_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"
#: The name of a step, or of an item of a for-each step.
STEP_PATTERN = rf"{NAME_PATTERN}(\.[0-9]{{1,3}})?"

#: Half of a character, which UTF-8 cannot hold.
_HALF = re.compile("[\ud800-\udfff]")

TaskId = Annotated[str, StringConstraints(pattern=TASK_ID_PATTERN)]
#: A version of a row (RFC 9110 §8.8.3), and not `*`: it is sent in a header.
ETag = Annotated[str, StringConstraints(max_length=256, pattern=r'^(W/)?"[!#-~]*"$')]
#: It is in headers and logs of the receivers of notices, so it has no control characters.
CorrelationId = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")
]


def _in_utc(time: datetime) -> datetime:
    if not 2000 <= time.year < 9000:  # noqa: PLR2004 - no difference to such a time overflows
        raise ValueError("use a time of the years 2000 to 8999")
    return time.astimezone(UTC)


UtcTime = Annotated[AwareDatetime, AfterValidator(_in_utc)]
type PropertyValue = str | int | float | bool
#: The submitter of an order and the digest of its content. Only orders with equal ones are the same.
type Identity = tuple[str, str]


# Messages of queues


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """A message as a queue or an event hub holds it. `properties` are application properties."""

    message_id: str
    body: bytes
    subject: str | None = None
    correlation_id: str | None = None
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return the approximate bytes of its body, its properties and its labels."""
        labels = {"id": self.message_id, "subject": self.subject, "correlation": self.correlation_id}
        return len(self.body) + size_of({**self.properties, **labels})

    @classmethod
    def received(
        cls,
        message_id: str | None,
        body: bytes,
        properties: Mapping[str, Any] | None = None,
        subject: str | None = None,
        correlation_id: str | None = None,
    ) -> QueueMessage:
        """Return a message from the values of the host, without those that cannot be sent again."""
        named = ((str(key), each) for key, each in (properties or {}).items())
        texts = (text if _can_be_sent(text) else None for text in (message_id, subject, correlation_id))
        message_id, subject, correlation_id = texts
        return cls(
            message_id=message_id or "",
            body=body,
            subject=subject,
            correlation_id=correlation_id,
            properties={key: each for key, each in named if _can_be_sent(key) and _can_be_sent(each)},
        )


def _can_be_sent(value: object) -> bool:
    return isinstance(value, int | float | bool) or (isinstance(value, str) and not _HALF.search(value))


def size_of(properties: Mapping[str, object]) -> int:
    """Return the approximate bytes that properties take in a message."""
    texts = (f"{name}{value}".encode(errors="replace") for name, value in properties.items())
    return sum(len(text) + 16 for text in texts)


def short_id(message_id: str) -> str:
    """Return the id of a message in at most 128 characters; the end of a longer one is a digest."""
    if len(message_id) <= MOST_ID_CHARACTERS:
        return message_id
    digest = hashlib.sha256(message_id.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{message_id[: MOST_ID_CHARACTERS - DIGEST_CHARACTERS - 1]}.{digest}"


def digest_of(*parts: bytes) -> str:
    """Return a digest of texts (SHA-256, hexadecimal)."""
    return hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).hexdigest()


# Reading


class MessageError(ValueError):
    """A message is not of its schema. The text names the places and the faults, and holds no value."""


class MessageModel(BaseModel):
    """The base of the messages of the application."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    schema_version: Literal[1] = 1


def read_message[ModelT: BaseModel](model: type[ModelT], body: bytes) -> ModelT:
    """Return the message in a body. If a name occurs twice, its last value counts. Raises `MessageError`."""
    if len(body) > MOST_MESSAGE_BYTES:
        raise MessageError(f"the message has {len(body)} bytes; the limit is {MOST_MESSAGE_BYTES}")
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise MessageError(faults_text(error)) from None


# Orders


class SubmissionMessage(MessageModel):
    """A submitted order. Without a `version`, it is for the newest version that is deployed.

    `reservation` is the ETag of the row that reserves its id.
    """

    task_id: TaskId
    workflow: str
    version: Annotated[int, Field(ge=1)] | None = None
    payload: dict[str, Any]
    submitter: Annotated[str, Field(max_length=256)]
    submitted_at: UtcTime
    reply_to: str | None = None
    correlation_id: CorrelationId | None = None
    reservation: ETag | None = None

    @cached_property
    def digest(self) -> str:
        """Return the digest by which two submissions under one id are compared (SHA-256, hexadecimal).

        Payloads are equal if they differ in the order of their members only.
        """
        payload = json.dumps(self.payload, sort_keys=True, separators=(",", ":"))
        return digest_of(self.workflow.encode(), payload.encode(), (self.reply_to or "").encode())

    @property
    def identity(self) -> Identity:
        """Return the identity of the order."""
        return self.submitter, self.digest

    @property
    def id(self) -> str:
        """Return the id of the message. Another payload under the same task id is no duplicate."""
        return f"{self.task_id}.{self.digest[:DIGEST_CHARACTERS]}"

    @cached_property
    def body(self) -> bytes:
        """Return the message as JSON in one line."""
        return self.model_dump_json(exclude_none=True).encode()


def payload_text(payload: Mapping[str, Any]) -> str:
    """Return the payload of an order as JSON. Raises `UnfitValueError`, also for a text that is too large."""
    text = json_text("payload", payload, most=sys.maxsize)  # the limit is one of UTF-8
    if len(text.encode()) > MOST_PAYLOAD_BYTES:
        raise UnfitValueError(f"payload: more than {MOST_PAYLOAD_BYTES} bytes")
    return text


class _GroupHeader(MessageModel):
    """The first line of a message with several orders: their number, and the trace of each one."""

    orders: Annotated[int, Field(ge=1, le=MOST_IN_GROUP)]
    traces: list[str | None] | None = None


def order_messages(
    messages: Sequence[SubmissionMessage], traces: Sequence[str | None]
) -> Iterator[tuple[QueueMessage, int]]:
    """Return orders of one workflow in as few messages as possible, each with its number of orders.

    `traces` has one `traceparent` for each order. A message with several orders has one order in each line.
    The receiver handles each order separately.
    """
    start, size = 0, 0
    for end, message in enumerate(messages):
        if end > start and (end - start == MOST_IN_GROUP or size + len(message.body) > _MOST_GROUP_BYTES):
            yield _group(messages[start:end], traces[start:end]), end - start
            start, size = end, 0
        size += len(message.body)
    if messages:
        yield _group(messages[start:], traces[start:]), len(messages) - start


def _group(messages: Sequence[SubmissionMessage], traces: Sequence[str | None]) -> QueueMessage:
    first, *others = messages
    if not others:
        return QueueMessage(
            message_id=first.id,
            body=first.body,
            subject=first.workflow,
            correlation_id=first.correlation_id,
            properties=trace_headers(traces[0]),
        )
    header = _GroupHeader(orders=len(messages), traces=list(traces) if any(traces) else None)
    lines = [header.model_dump_json(exclude_none=True).encode(), *(each.body for each in messages)]
    ids = " ".join(each.id for each in messages)
    return QueueMessage(
        message_id=hashlib.sha256(ids.encode()).hexdigest()[:DIGEST_CHARACTERS],
        body=b"\n".join(lines),
        subject=first.workflow,
    )


def each_order(message: QueueMessage) -> list[QueueMessage]:
    """Return one message for each order of a message with several, or the message itself."""
    first, *lines = message.body.split(b"\n", MOST_IN_GROUP + 1)
    if not lines:
        return [message]
    try:
        header = _GroupHeader.model_validate_json(first)
    except ValidationError:
        return [message]
    traces = header.traces or [None] * len(lines)
    if not header.orders == len(lines) == len(traces):
        return [message]
    return [
        QueueMessage(
            message_id=f"{message.message_id}.{number}",
            body=line,
            subject=message.subject,
            properties=trace_headers(trace),
        )
        for number, (line, trace) in enumerate(zip(lines, traces, strict=True))
    ]
