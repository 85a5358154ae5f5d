"""Messages that were not processed: kept whole, so that an operator can have them sent again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from functions.pattern.errors import PatternError
from functions.pattern.identity import StepName, TaskId

#: What a property takes beside its name and its value.
_PROPERTY_BYTES = 16


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
    """Tell how many bytes a message's properties take, roughly."""
    texts = (f"{name}{value}".encode(errors="replace") for name, value in properties.items())
    return sum(len(text) + _PROPERTY_BYTES for text in texts)


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
    `discarded_by` had it deleted at `discarded_at`: then its body is gone, and this is all that is kept.
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
    discarded_by: str | None = None
    discarded_why: str | None = None
    discarded_at: datetime | None = None

    @property
    def place(self) -> Place:
        """Tell where it stands in a list."""
        return Place(self.discarded_at or self.rejected_at, self.id)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a message stands in a list, which goes by time."""

    at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class RejectedPage:
    """Some rejected messages, latest first, of `count` that were found; the next page is after `next`.

    `more` says that there are others still, to which no page leads.
    """

    messages: tuple[RejectedMessage, ...]
    count: int
    next: Place | None
    more: bool

    @classmethod
    def of(
        cls, found: Iterable[RejectedMessage], most: int, after: Place | None, *, more: bool = False
    ) -> RejectedPage:
        """Give the page of at most `most` that comes `after` a place."""
        ordered = sorted(found, key=lambda each: each.place, reverse=True)
        left = [each for each in ordered if after is None or each.place < after]
        page = tuple(left[:most])
        return cls(page, len(ordered), page[-1].place if len(left) > most else None, more)


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

    async def listed(
        self,
        *,
        queues: Sequence[str],
        most: int,
        after: Place | None = None,
        until: datetime | None = None,
        discarded: bool = False,
    ) -> RejectedPage:
        """Read a page of some queues or, without any, of all: of the first 5,000, the latest first.

        What was rejected later than `until` is none of these. Of what was `discarded` there is only what is
        known of it.
        """

    async def of_task(self, task: TaskId, *, most: int) -> RejectedPage:
        """Read the latest of the rejected messages that name a task."""

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
