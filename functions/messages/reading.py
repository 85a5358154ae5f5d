"""Reads messages of queues; one that can't be understood is recorded as rejected, and harms no other."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from functions.pattern.definition import NAME_PATTERN
from functions.pattern.faults import faults_found
from functions.pattern.identity import TASK_ID_PATTERN, StepName, TaskId
from functions.pattern.rejected import About, Content, Labels, RejectedMessages
from functions.pattern.strict_json import NotJsonError, parse_json
from functions.pattern.submission_groups import orders_in
from functions.pattern.texts import bounded
from functions.telemetry.spans import TRACEPARENT

DEAD_LETTER_REASON = "DeadLetterReason"
DEAD_LETTER_DESCRIPTION = "DeadLetterErrorDescription"
_OF_SERVICE_BUS = {DEAD_LETTER_REASON, DEAD_LETTER_DESCRIPTION}

_MEMBER = re.compile(r"<[^<>]*: ('[^']*')>")

_log = logging.getLogger(__name__)


class QueueMessage(Protocol):
    """What is read of a message, as the host hands it over."""

    @property
    def message_id(self) -> str | None:
        """Its id, as its sender has named it."""

    @property
    def application_properties(self) -> Mapping[str, Any] | None:
        """What its sender has put beside the body."""

    @property
    def subject(self) -> str | None:
        """What it is about."""

    @property
    def correlation_id(self) -> str | None:
        """What it belongs to."""

    def get_body(self) -> bytes:
        """Give the body."""


@dataclass(frozen=True, slots=True)
class FaultAt:
    """A fault in a message and its place, empty if unknown. `kind` is one of a few texts."""

    place: tuple[str | int, ...]
    kind: str
    text: str

    def __str__(self) -> str:
        most_name_bytes, most_place_bytes = 64, 256
        parts = (
            f"[{each}]" if isinstance(each, int) else f".{bounded(each, most_name_bytes)}"
            for each in self.place
        )
        place = bounded("".join(parts).removeprefix("."), most_place_bytes)
        return f"{place}: {self.text}" if place else self.text


class NotAMessageError(Exception):
    """A message can't be read; the text says where and why. `content` is the parsed part."""

    def __init__(self, faults: tuple[FaultAt, ...], content: object) -> None:
        self.faults = faults
        self.content: Mapping[str, object] = content if isinstance(content, dict) else {}
        super().__init__("; ".join(map(str, faults[:3])))

    @property
    def about(self) -> About:
        """Tell which task and step the message names."""
        task, step = self.content.get("task_id"), self.content.get("step")
        return About(
            task=TaskId(task) if isinstance(task, str) and re.fullmatch(TASK_ID_PATTERN, task) else None,
            step=StepName(step) if isinstance(step, str) and re.fullmatch(NAME_PATTERN, step) else None,
        )


def read_message[MessageT: BaseModel](expected: type[MessageT], body: bytes) -> MessageT:
    """Read a message strictly. Of a name given twice, the last value counts. Raises `NotAMessageError`."""
    try:
        content = parse_json(body)
    except NotJsonError as error:
        raise NotAMessageError((FaultAt((), error.kind, str(error)),), error.content) from None
    if isinstance(content, str):  # some clients encode what is JSON already
        raise NotAMessageError((FaultAt((), "json_text", "a JSON text, not an object"),), content)
    try:
        return expected.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise NotAMessageError(faults_of(error), content) from None


def faults_of(error: ValidationError) -> tuple[FaultAt, ...]:
    """Name the places that do not fit, and why; nothing is said of what is there."""
    found = [(each, _MEMBER.sub(r"\1", each["msg"])) for each in faults_found(error)]
    return tuple(
        FaultAt(each["loc"], each["type"], text.removeprefix("Value error, ")) for each, text in found
    )


def content_of(message: QueueMessage) -> Content:
    """Give what is needed to send a message again."""
    properties = {
        str(name): value
        for name, value in (message.application_properties or {}).items()
        if isinstance(value, str | int | float | bool) and name not in _OF_SERVICE_BUS
    }
    labels = Labels(subject=message.subject, correlation_id=message.correlation_id, properties=properties)
    return Content(message.get_body(), labels)


@dataclass(frozen=True, slots=True)
class MessageReader[MessageT: BaseModel]:
    """Reads the messages of one queue."""

    expected: type[MessageT]
    queue: str
    rejected: RejectedMessages

    async def read(self, message_id: str, body: bytes) -> MessageT | None:
        """Read one message, or record it as rejected and give None. Raises `TransientError`."""
        try:
            return read_message(self.expected, body)
        except NotAMessageError as error:
            await self.reject(message_id, body, str(error), error.about)
            return None

    async def reject(self, message_id: str, body: bytes, reason: str, about: About) -> None:
        """Record a message as rejected, and say so in the log. Raises `TransientError`."""
        _log.warning("%s: message %s rejected (%s): %s", self.queue, message_id, about, reason)
        await self.rejected.reject(self.queue, message_id, body, reason, about=about)


@dataclass(frozen=True, slots=True)
class _Order:
    body: bytes
    message_id: str
    subject: str | None
    traceparent: str | None
    correlation_id: str | None = None

    @property
    def application_properties(self) -> Mapping[str, object]:
        return {} if self.traceparent is None else {TRACEPARENT: self.traceparent}

    def get_body(self) -> bytes:
        return self.body


def each_order(message: QueueMessage) -> list[QueueMessage]:
    """Give a message for each order of one that holds several, and any other message as it is."""
    orders = orders_in(message.get_body())
    if orders is None:
        return [message]
    named = message.message_id or ""
    return [
        _Order(order.body, f"{named}.{number}", message.subject, order.traceparent)
        for number, order in enumerate(orders)
    ]
