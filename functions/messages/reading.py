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

#: Application properties in which Service Bus says why a message died.
DEAD_LETTER_REASON = "DeadLetterReason"
DEAD_LETTER_DESCRIPTION = "DeadLetterErrorDescription"
_OF_SERVICE_BUS = {DEAD_LETTER_REASON, DEAD_LETTER_DESCRIPTION}

#: Faults that a reason names, and bytes that it shows of a field's name: a token, misplaced there, has more.
_MOST_TOLD = 3
_MOST_NAME_BYTES = 15
#: An enum's member, as pydantic names it.
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
    """A message is not what is read; the text says where and why, and no token.

    `content` is what could be read of it.
    """

    def __init__(self, faults: tuple[FaultAt, ...], content: object) -> None:
        self.faults = faults
        self.content: Mapping[str, object] = content if isinstance(content, dict) else {}
        told = (self._without_token(each).told(_MOST_NAME_BYTES) for each in faults[:_MOST_TOLD])
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
    return tuple(FaultAt(each["loc"], each["type"], _plain(each["msg"])) for each in faults_found(error))


def _plain(text: str) -> str:
    return _MEMBER.sub(r"\1", text).removeprefix("Value error, ")


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
