"""Reads messages of queues; one that can't be understood is recorded as rejected, and harms no other."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from functions.pattern.agent_messages import LEAST_TOKEN
from functions.pattern.definition import NAME_PATTERN
from functions.pattern.faults import faults_found
from functions.pattern.identity import TASK_ID_PATTERN, StepName, TaskId
from functions.pattern.rejected import About, Content, Labels, RejectedMessages
from functions.pattern.strict_json import FaultAt, NotJsonError, parse_json
from functions.pattern.submission_groups import orders_in
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
    def label(self) -> str | None:
        """The same, by its former name."""

    @property
    def correlation_id(self) -> str | None:
        """What it belongs to."""

    def get_body(self) -> bytes:
        """Give the body."""


class NotAMessageError(Exception):
    """A message can't be read; the text says where and why, without tokens. `content` is the parsed part."""

    def __init__(self, faults: tuple[FaultAt, ...], content: object) -> None:
        self.faults = faults
        self.content: Mapping[str, object] = content if isinstance(content, dict) else {}
        # Of a field's name, 15 bytes are shown: a token, misplaced there, has more.
        told = (self._without_token(each).told(15) for each in faults[:3])
        super().__init__("; ".join(told))

    def _without_token(self, fault: FaultAt) -> FaultAt:
        token = self.content.get("token")
        place = (each if isinstance(each, int) else shown_id(each, token) for each in fault.place)
        return replace(fault, place=tuple(place))

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
        raise NotAMessageError((error.fault,), error.content) from None
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


def shown_id(message_id: str, *tokens: object) -> str:
    """Give the id by which a message is told of and kept: a sender may have made it of a token."""
    told = any(isinstance(each, str) and len(each) >= LEAST_TOKEN and each in message_id for each in tokens)
    return "…" if told else message_id


def content_of(message: QueueMessage) -> Content:
    """Give what is needed to send a message again."""
    properties = {
        str(name): value
        for name, value in (message.application_properties or {}).items()
        if isinstance(value, str | int | float | bool) and name not in _OF_SERVICE_BUS
    }
    labels = Labels(
        subject=message.subject or message.label, correlation_id=message.correlation_id, properties=properties
    )
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


#: What is called a token, with all of its value however that is written, and what looks like one of ours.
_TOKEN = re.compile(
    r"""
      (?P<named>token["'\\]*\s*[:=]\s*)
      (?:(?P<quote>\\*["'])(?P<text>.*?)(?=(?<!\\)(?P=quote)|\Z)
        |(?P<opened>[\[{])(?P<some>[^\]}]*)
        |(?P<bare>[^"'\\\s,;}]+))
    | (?:[0-9a-f]-?){32,}
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
#: A letter or a digit that is written as its number, but for quotes and backslashes.
#: Many backslashes are looked at once, not from each of them on.
_ESCAPED = re.compile(r"(?<!\\)\\+u00(?!22|27|5c)([2-7][0-9a-f])", re.IGNORECASE)


def without_tokens(text: str) -> str:
    """Leave out what could be a token."""
    return _TOKEN.sub(_cut, _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text))


def tokens_in(text: str) -> list[str]:
    """Find what a text calls a token, also where it can't be read as a whole."""
    values = (found["text"] or found["bare"] for found in _TOKEN.finditer(text))
    return [value for value in values if value]


def _cut(found: re.Match[str]) -> str:
    return f"{found['named'] or ''}{found['quote'] or found['opened'] or ''}…"


@dataclass(frozen=True, slots=True)
class _Order:
    body: bytes
    message_id: str
    subject: str | None
    traceparent: str | None
    label: str | None = None
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
        _Order(order.body, f"{named}.{number}", message.subject or message.label, order.traceparent)
        for number, order in enumerate(orders)
    ]
