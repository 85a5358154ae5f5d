"""Messages that were not processed: kept whole, so that an operator can have them sent again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from functions.pattern.errors import PatternError
from functions.pattern.identity import StepName, TaskId


class SentByAnotherError(PatternError):
    """Another operator has the message sent again, or has discarded it, at this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What a message carries beside its body, as far as it is needed to send it again."""

    subject: str | None = None
    correlation_id: str | None = None
    properties: Mapping[str, str | int | float | bool] = field(default_factory=dict)

    def within(self, most_bytes: int) -> Labels:
        """Give them without their properties, should those take more bytes."""
        return self if size_of(self.properties) <= most_bytes else replace(self, properties={})


def size_of(properties: Mapping[str, object]) -> int:
    """Return about how many bytes a message's properties take: 16 each, besides its name and value."""
    texts = (f"{name}{value}".encode(errors="replace") for name, value in properties.items())
    return sum(len(text) + 16 for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a message names, or is known to be for; None is what is not known."""

    task: TaskId | None = None
    step: StepName | None = None
    agent: str | None = None

    def __str__(self) -> str:
        named = (("task", self.task), ("step", self.step), ("Agent", self.agent))
        return ", ".join(f"{what} {name}" for what, name in named if name is not None) or "task unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedMessage:
    """A message that was not processed: its queue, id and size in bytes, the reason, and its task if known.

    It can be resent if it is kept `whole`, and not only its beginning. `resends` counts how often it was,
    last by `resent_by` at `resent_at` (UTC). A discarded message has no body.
    """

    id: str
    queue: str
    message_id: str
    size: int
    whole: bool
    reason: str
    rejected_at: datetime
    task: TaskId | None = None
    step: StepName | None = None
    agent: str | None = None
    resends: int = 0
    resent_by: str | None = None
    resent_why: str | None = None
    resent_at: datetime | None = None
    discarded_by: str | None = None
    discarded_why: str | None = None
    discarded_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RejectedList:
    """The latest rejected messages, the latest first, and whether there are `more`."""

    messages: Sequence[RejectedMessage]
    more: bool


@dataclass(frozen=True, slots=True)
class Content:
    """What is sent again of a rejected message."""

    body: bytes
    labels: Labels


class RejectedMessages(Protocol):
    """The record of messages that were not processed. Its methods raise `TransientError`."""

    async def reject(
        self,
        queue: str,
        message_id: str,
        body: bytes,
        reason: str,
        labels: Labels | None = None,
        *,
        about: About | None = None,
    ) -> None:
        """Record the message and why it was rejected; the same message is recorded once."""

    async def listed(
        self, queues: Sequence[str], most: int, *, until: datetime | None = None, discarded: bool = False
    ) -> RejectedList:
        """Read the latest `most` messages of some queues or, without any, of all, from up to 5,000 rows.

        `until` excludes messages that were rejected later. Without `discarded`, discarded messages are
        excluded, otherwise all others.
        """

    async def of_task(self, task: TaskId, most: int) -> RejectedList:
        """Read the latest `most` of the rejected messages that name a task."""

    async def body(self, message: str) -> tuple[RejectedMessage, bytes] | None:
        """Read a message, by its id, and what is kept of its body; None when there is none."""

    async def resending(
        self, message: str, who: str, why: str
    ) -> tuple[RejectedMessage, Content | None] | None:
        """Record that a message, by its id, is sent again now, by whom and why; None when there is none.

        One of which not all is kept has no content. Raises `SentByAnotherError`.
        """

    async def discard(self, message: str, who: str, why: str) -> RejectedMessage | None:
        """Delete a message, by its id, but for what is known of it; None when there is none."""

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete up to `most` messages rejected before that time; give how many."""


class Postbox(Protocol):
    """Puts messages on queues again. Its methods raise `TransientError`."""

    async def put(
        self,
        queue: str,
        message_id: str,
        content: Content,
        *,
        not_before: datetime | None = None,
    ) -> None:
        """Send the message, to be delivered not before that time (UTC)."""
