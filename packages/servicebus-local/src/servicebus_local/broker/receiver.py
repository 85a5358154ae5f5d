"""What a queue sees of a client that receives from it."""

from __future__ import annotations

from typing import Protocol

from .message import Lock, Message


class Receiver(Protocol):
    """A link that takes messages while it has credit."""

    #: How many more messages it takes.
    credit: int
    #: It takes none any more.
    closed: bool
    #: Receive-and-delete: a message is gone when it is sent.
    deletes_on_delivery: bool

    def use_credit(self) -> None:
        """Count a message that is about to be delivered."""

    def deliver(self, message: Message, lock: Lock | None) -> None:
        """Send a message to the client; the lock is absent when the message is deleted already."""
