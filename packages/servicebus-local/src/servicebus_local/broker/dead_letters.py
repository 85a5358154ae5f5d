"""The dead-letter queue: no time to live, no delivery limit, and no way further down."""

from __future__ import annotations

from servicebus_local.content import Content
from servicebus_local.errors import NotAllowed

from .entity import Entity
from .message import Lock, Message, MessageState, Outcome


class DeadLetterQueue(Entity):
    """Keeps what a queue gave up, under the sequence numbers it had there."""

    def bury(self, message: Message, source: str, content: Content) -> None:
        """Take over a message from its queue."""
        message.address = self.address
        message.state = MessageState.ACTIVE
        message.expires_ms = None
        message.dead_letter_source = source
        message.content = content
        self.messages[message.sequence_number] = message
        self._journal.update(message)
        self._journal.then(self.make_available, message)

    def send(self, contents: list[Content]) -> list[int]:
        """Refuse: only its queue puts messages here."""
        raise NotAllowed(f"Sending to a dead-letter queue is not allowed ({len(contents)} messages).")

    def settle(
        self, lock: Lock, outcome: Outcome, reason: str | None = None, description: str | None = None
    ) -> None:
        """Carry out a receiver's verdict; the message keeps its lock if the verdict is refused."""
        if outcome is Outcome.DEAD_LETTER:
            raise NotAllowed("A message in a dead-letter queue can not be dead-lettered.")
        super().settle(lock, outcome, reason, description)

    def _failed(self, message: Message) -> None:
        # Its delivery count stays as it was when it came here.
        self._journal.then(self.make_available, message)

    def _dead_letter(self, message: Message, reason: str | None, description: str | None) -> None:
        raise NotImplementedError("settle refuses it before the lock is given up")

    def _expire(self, message: Message) -> None:
        raise NotImplementedError("dead letters have no time to live")
