"""A queue, which enqueues and schedules messages and drops duplicates; and its dead-letter queue."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from servicebus_local.broker.entity import Entity, Machinery, Space
from servicebus_local.broker.message import Lock, MessageState, Settlement, StoredMessage, Verdict
from servicebus_local.broker.settings import QueueSettings
from servicebus_local.broker.timers import END_OF_TIME_MS, now_ms
from servicebus_local.codec.encoding import encode
from servicebus_local.content import Content
from servicebus_local.errors import NotAllowedError, QuotaExceededError


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


class DuplicateWindow:
    """Ids, each with the end of its window (milliseconds since 1970); all windows are equally long."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._until: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._until

    def remember(self, message_id: str, now: int) -> int:
        """Record an id, and return the end of its window."""
        until = now + self._window_ms
        self._until[message_id] = until
        return until

    def restore(self, message_id: str, until: int) -> None:
        """Record an id from the log; ids must be in the order of their windows' ends."""
        self._until[message_id] = until

    def forget_before(self, now: int) -> bool:
        """Drop the ids whose window has passed, and return whether there were any."""
        passed = [message_id for message_id, _ in takewhile(lambda item: item[1] <= now, self._until.items())]
        for message_id in passed:
            del self._until[message_id]
        return bool(passed)


#: Suffix of a queue's name in the address of its dead letters. Addresses are lower-case.
DEAD_LETTER_SUFFIX = "/$deadletterqueue"
#: Sequence numbers are reserved in blocks: unique after a restart, with one write for each block.
_NUMBER_BLOCK = 1000
#: Service Bus limit for each of the two dead-letter texts.
_MAX_REASON = 4096


class Queue(Entity):
    """Messages are sent to it and received from it; it has a dead-letter queue."""

    def __init__(self, name: str, settings: QueueSettings, machinery: Machinery) -> None:
        key = name.lower()
        space = Space()
        super().__init__(key, key, settings, machinery, space)
        self.name = name
        self.dead_letters = DeadLetterQueue(key + DEAD_LETTER_SUFFIX, key, settings, machinery, space)
        self.seen_ids = (
            DuplicateWindow(settings.duplicate_window_ms) if settings.duplicate_window_ms else None
        )
        self._next_number = self._reserved_numbers = 1

    # Sending

    def send(self, contents: list[Content]) -> list[int]:
        """Enqueue messages, all or none, and return their sequence numbers (0 for a dropped duplicate).

        Raises QuotaExceededError.
        """
        now = now_ms()
        size = sum(content.size for content in contents)
        if self._space.used_bytes + size > self.settings.max_bytes:
            raise QuotaExceededError(
                f"Queue '{self.name}' may hold {self.settings.max_bytes} bytes and is full."
            )
        return [
            0 if self._is_duplicate(content, now) else self._enqueue(content, now) for content in contents
        ]

    def _is_duplicate(self, content: Content, now: int) -> bool:
        if self.seen_ids is None:
            return False
        if self.seen_ids.forget_before(now):
            self._journal.forget_ids(self.key, now)
        if content.message_id in self.seen_ids:
            self.counters["duplicates_dropped"] += 1
            return True
        until_ms = self.seen_ids.remember(content.message_id, now)
        self._journal.remember_id(self.key, content.message_id, until_ms)
        return False

    def _enqueue(self, content: Content, now: int) -> int:
        content = self._within_time_to_live(content)
        scheduled_ms = content.scheduled_ms if content.scheduled_ms and content.scheduled_ms > now else None
        number = self._take_number()
        message = StoredMessage(
            id=self._journal.next_id(),
            address=self.address,
            sequence_number=number,
            state=MessageState.SCHEDULED if scheduled_ms else MessageState.ACTIVE,
            delivery_count=0,
            enqueued_ms=now,
            expires_ms=_expiry(content, scheduled_ms or now),
            scheduled_ms=scheduled_ms,
            content=content,
        )
        self.counters["sent"] += 1
        self.hold(message)
        self._journal.insert(message)
        self._start(message)
        return number

    def _start(self, message: StoredMessage) -> None:
        if message.state is MessageState.SCHEDULED and message.scheduled_ms is not None:
            message.timer = self._timers.at(message.scheduled_ms, self._activate, message)
        elif message.state is MessageState.ACTIVE:
            self._journal.then(self.make_available, message)

    def _activate(self, message: StoredMessage) -> None:
        """Enqueue a scheduled message as a new message, with a new sequence number."""
        message.timer = None
        del self.messages[message.sequence_number]
        message.sequence_number = self._take_number()
        message.state = MessageState.ACTIVE
        message.enqueued_ms = now_ms()
        message.expires_ms = _expiry(message.content, message.enqueued_ms)
        self.messages[message.sequence_number] = message
        self._journal.update(message)
        self._journal.then(self.make_available, message)

    def _within_time_to_live(self, content: Content) -> Content:
        """Return content that lives no longer than the queue's time to live allows."""
        limit, own = self.settings.time_to_live_ms, content.time_to_live_ms
        if limit is None or (own is not None and own <= limit):
            return content
        return replace(content, time_to_live_ms=limit)

    def _take_number(self) -> int:
        number = self._next_number
        self._next_number += 1
        if self._next_number > self._reserved_numbers:
            self._reserved_numbers = self._next_number + _NUMBER_BLOCK
            self._journal.reserve_numbers(self.key, self._reserved_numbers)
        return number

    # Failure and expiry

    def _on_failed_delivery(self, message: StoredMessage) -> None:
        message.delivery_count += 1
        limit = self.settings.max_delivery_count
        if message.delivery_count >= limit:
            text = f"Message could not be consumed after {limit} delivery attempts."
            self._dead_letter(message, "MaxDeliveryCountExceeded", text)
            return
        self._journal.update(message)
        self._journal.then(self.make_available, message)

    def _expire(self, message: StoredMessage) -> None:
        self.counters["expired"] += 1
        if self.settings.dead_letters_expired:
            self._dead_letter(message, "TTLExpiredException", "The message expired and was dead lettered.")
        else:
            self.remove(message)

    def _dead_letter(self, message: StoredMessage, reason: str | None, description: str | None) -> None:
        self._forget(message)
        texts = {"DeadLetterReason": reason, "DeadLetterErrorDescription": description}
        message.content = message.content.with_application_properties(
            {encode(key): encode(text[:_MAX_REASON]) for key, text in texts.items() if text}
        )
        self.dead_letters.add(message)

    # After a restart

    def resume_numbers(self, next_number: int) -> None:
        """Continue after a restart with the first number that was not reserved before it."""
        self._next_number = self._reserved_numbers = next_number

    def restore(self, message: StoredMessage) -> None:
        """Restore a message from the log, unlocked."""
        if message.address == self.address:
            self.hold(message)
            self._start(message)
        else:
            self.dead_letters.hold(message)
            if message.state is MessageState.ACTIVE:
                self._journal.then(self.dead_letters.make_available, message)


def _expiry(content: Content, start_ms: int) -> int | None:
    if content.time_to_live_ms is None or start_ms + content.time_to_live_ms >= END_OF_TIME_MS:
        return None
    return start_ms + content.time_to_live_ms
