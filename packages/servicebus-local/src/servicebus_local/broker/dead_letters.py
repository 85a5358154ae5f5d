"""The dead-letter queue: no time to live, no delivery limit, no dead letters of its own."""

from __future__ import annotations

from servicebus_local.broker.entity import Entity
from servicebus_local.broker.message import Lock, MessageState, Settlement, StoredMessage, Verdict
from servicebus_local.content import Content
from servicebus_local.errors import NotAllowedError


class DeadLetterQueue(Entity):
    """Holds the dead letters of a queue, with their sequence numbers of the queue."""

    def add(self, message: StoredMessage) -> None:
        """Add a message that its queue removed."""
        message.address = self.address
        message.state = MessageState.ACTIVE
        message.expires_ms = None
        self.hold(message)
        self._journal.update(message)
        self._journal.then(self.make_available, message)

    def send(self, contents: list[Content]) -> list[int]:
        """Refuse: only its queue adds messages. Raises NotAllowedError."""
        raise NotAllowedError(f"Sending to a dead-letter queue is not allowed ({len(contents)} messages).")

    def settle(self, lock: Lock, verdict: Verdict) -> None:
        """Settle a locked message; a refused settlement leaves it locked. Raises OperationError."""
        if verdict.settlement is Settlement.DEAD_LETTER:
            raise NotAllowedError("A message in a dead-letter queue cannot be dead-lettered.")
        super().settle(lock, verdict)

    def _on_failed_delivery(self, message: StoredMessage) -> None:
        # Its delivery count stays what it was in its queue; its properties may have changed.
        self._journal.update(message)
        self._journal.then(self.make_available, message)

    def _dead_letter(self, message: StoredMessage, reason: str | None, description: str | None) -> None:
        raise NotImplementedError("settle refuses it before it unlocks the message")

    def _expire(self, message: StoredMessage) -> None:
        raise NotImplementedError("dead letters have no time to live")
