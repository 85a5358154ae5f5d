"""A message in a queue, its lock, and the receivers that it is delivered to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol
from uuid import UUID

from servicebus_local.broker.timers import Timer
from servicebus_local.content import Content


class MessageState(IntEnum):
    """The values of the annotation `x-opt-message-state`."""

    #: May be received, unless it is locked.
    ACTIVE = 0
    #: Deferred by a receiver; received only by its sequence number.
    DEFERRED = 1
    SCHEDULED = 2


class Settlement(IntEnum):
    """How a receiver settles a locked message."""

    #: Processed: it is deleted.
    COMPLETE = 0
    #: Not processed: available again, with one more delivery counted.
    ABANDON = 1
    #: Deferred: received only by its sequence number.
    DEFER = 2
    #: Can't be processed: moved to the dead-letter queue.
    DEAD_LETTER = 3
    #: Not handed to the application: available again, nothing counted.
    RELEASE = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """A receiver's settlement, with its reason and properties for the message."""

    settlement: Settlement
    #: Why it is dead-lettered.
    reason: str | None = None
    description: str | None = None
    #: Application properties to add or replace, encoded.
    properties: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class StoredMessage:
    """A stored message. Times are milliseconds since 1970 UTC."""

    #: Row in the log; ids only grow.
    id: int
    #: Address of the queue or dead-letter queue that holds it.
    address: str
    sequence_number: int
    state: MessageState
    #: Deliveries that failed so far.
    delivery_count: int
    enqueued_ms: int
    expires_ms: int | None
    scheduled_ms: int | None
    content: Content
    lock: Lock | None = None
    #: For the end of its time to live, or for its scheduled time.
    timer: Timer | None = field(default=None, repr=False)

    def expired(self, now: int) -> bool:
        """Return whether its time to live has passed."""
        return self.expires_ms is not None and self.expires_ms <= now


@dataclass(slots=True, eq=False)
class Lock:
    """A receiver's right to settle a message, until a time in milliseconds since 1970 UTC."""

    token: UUID
    message: StoredMessage
    until_ms: int
    timer: Timer | None = field(default=None, repr=False)


class Receiver(Protocol):
    """The part of a client's receiver that its queue uses."""

    #: The client has disconnected.
    closed: bool
    #: Receive-and-delete: a message is deleted when it is sent.
    deletes_on_delivery: bool

    @property
    def ready(self) -> bool:
        """Return whether it can receive a message now."""

    def use_credit(self, size: int) -> None:
        """Count a message of some bytes that is about to be delivered."""

    def deliver(self, message: StoredMessage, lock: Lock | None) -> None:
        """Send a message to the client; without a lock, the message is deleted already."""
