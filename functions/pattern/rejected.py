"""Messages that were not processed: kept whole, so that an operator can have them sent again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from functions.pattern.identity import StepName, TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What a message carries beside its body, as far as it is needed to send it again."""

    subject: str | None = None
    correlation_id: str | None = None
    properties: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a message names, or is known to be for; None is what is not known."""

    task: TaskId | None = None
    step: StepName | None = None
    agent: str | None = None

    def __str__(self) -> str:
        named = (("task", self.task), ("step", self.step), ("Agent", self.agent))
        return ", ".join(f"{what} {name}" for what, name in named if name is not None) or "task unknown"


#: Of a message that could not be read at all.
NOTHING_KNOWN = About()


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedMessage:
    """A message that is kept: `whole`, or only the beginning of its `size` bytes; `queue` is where it was.

    `resent_by` had it sent again at `resent_at` (UTC), for the `resends`th time, because of `resent_why`.
    """

    id: str
    queue: str
    message_id: str
    size: int
    whole: bool
    reason: str
    rejected_at: datetime
    about: About = NOTHING_KNOWN
    resends: int = 0
    resent_by: str | None = None
    resent_why: str | None = None
    resent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RejectedPage:
    """Some rejected messages, latest first; `more` says that there are others."""

    messages: tuple[RejectedMessage, ...]
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
        about: About = NOTHING_KNOWN,
    ) -> None:
        """Record the message and why it was rejected; the same message is recorded once."""

    async def listed(self, *, queues: Sequence[str], most: int) -> RejectedPage:
        """Read the latest of up to a thousand rejected messages, of some queues or, without any, of all."""

    async def of_task(self, task: TaskId, *, most: int) -> RejectedPage:
        """Read the latest of the rejected messages that name a task."""

    async def body(self, message: str) -> tuple[RejectedMessage, bytes] | None:
        """Read a message, by its id, and what is kept of its body; None when there is none."""

    async def resending(
        self, message: str, who: str, why: str
    ) -> tuple[RejectedMessage, Content | None] | None:
        """Record that a message, by its id, is sent again now, by whom and why; None when there is none.

        One of which not all is kept has no content.
        """

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
