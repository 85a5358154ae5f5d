"""A message as it lies in a queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from servicebus_local.content import Content

from .timers import Timer


class MessageState(IntEnum):
    """The values of the annotation `x-opt-message-state`."""

    #: May be received, unless it is locked.
    ACTIVE = 0
    #: Put aside by a receiver; only its sequence number brings it back.
    DEFERRED = 1
    #: Waits for its time.
    SCHEDULED = 2


class Outcome(IntEnum):
    """What becomes of a locked message."""

    #: Done: it is deleted.
    COMPLETE = 0
    #: Not done: available again, one more delivery counted.
    ABANDON = 1
    #: Put aside.
    DEFER = 2
    #: Not to be done: moved to the dead-letter queue.
    DEAD_LETTER = 3
    #: Never looked at: available again, nothing counted.
    RELEASE = 4


@dataclass(slots=True, eq=False)
class Message:
    """A stored message. Times are milliseconds since 1970 UTC."""

    #: Row in the log; grows with every message of the broker.
    id: int
    #: Address of the queue or dead-letter queue where it lies.
    address: str
    sequence_number: int
    enqueued_sequence_number: int
    state: MessageState
    #: Deliveries that failed so far.
    delivery_count: int
    enqueued_ms: int
    expires_ms: int | None
    scheduled_ms: int | None
    #: Name of the queue that a dead letter came from.
    dead_letter_source: str | None
    content: Content
    lock: Lock | None = None
    #: Its time to live, or the time it is scheduled for.
    timer: Timer | None = field(default=None, repr=False)

    def expired(self, now: int) -> bool:
        """Say whether its time to live has passed."""
        return self.expires_ms is not None and self.expires_ms <= now


@dataclass(slots=True, eq=False)
class Lock:
    """A receiver's right to settle a message, until a time in milliseconds since 1970 UTC."""

    token: UUID
    message: Message
    until_ms: int
    timer: Timer | None = field(default=None, repr=False)
