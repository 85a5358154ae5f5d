"""The base of queues and dead-letter queues: messages in order, receivers, locks, settlement.

Order is by sequence number; a message that becomes available again returns to its old place. Receivers are
served in rotation.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, assert_never

from servicebus_local.broker.faults import FaultBoard, QueueFaultKind
from servicebus_local.broker.journal import Journal
from servicebus_local.broker.locks import Locks
from servicebus_local.broker.message import Lock, MessageState, Receiver, Settlement, StoredMessage, Verdict
from servicebus_local.broker.settings import QueueSettings
from servicebus_local.broker.timers import TimerHeap, now_ms
from servicebus_local.content import Content
from servicebus_local.errors import MessageNotFoundError


@dataclass(frozen=True, slots=True)
class Machinery:
    """The shared parts of all queues of a broker."""

    journal: Journal
    timers: TimerHeap
    faults: FaultBoard
    #: An expired message stays in its queue until a receiver requests messages.
    expires_on_receive: bool = False


@dataclass(slots=True)
class Space:
    """The space that a queue and its dead letters use."""

    used_bytes: int = 0


class Entity(ABC):
    """A queue or a dead-letter queue: messages are received from it."""

    def __init__(
        self, address: str, key: str, settings: QueueSettings, machinery: Machinery, space: Space
    ) -> None:
        #: Lower-case address, as in the log.
        self.address = address
        #: Lower-case name of the queue, the same for its dead-letter queue; the key of faults.
        self.key = key
        self.settings = settings
        self.messages: dict[int, StoredMessage] = {}
        self.locks = Locks(settings.lock_ms, machinery.timers, self._on_expired_lock)
        #: Counted since the broker started, for the admin endpoint.
        self.counters: Counter[str] = Counter()
        self._journal = machinery.journal
        self._timers = machinery.timers
        self._faults = machinery.faults
        self._expires_on_receive = machinery.expires_on_receive
        self._space = space
        self._ready: list[int] = []
        self._receivers: deque[Receiver] = deque()

    # Availability and delivery

    def add_receiver(self, receiver: Receiver) -> None:
        """Deliver to a receiver while it has credit."""
        if receiver not in self._receivers:
            self._receivers.append(receiver)
        self._deliver_ready()

    def remove_receiver(self, receiver: Receiver) -> None:
        """Remove a receiver that has disconnected."""
        if receiver in self._receivers:
            self._receivers.remove(receiver)

    def make_available(self, message: StoredMessage) -> None:
        """Offer an active message, which must be committed, to the receivers."""
        delay_ms = self._faults.delay_ms(QueueFaultKind.DELAY_DELIVERIES, self.key)
        if delay_ms:
            self._timers.after(delay_ms, self._offer, message)
        else:
            self._offer(message)

    def _offer(self, message: StoredMessage) -> None:
        if not self._is_available(message):
            return
        has_timer = message.timer is not None or self._expires_on_receive
        if message.expires_ms is not None and not has_timer:
            message.timer = self._timers.at(message.expires_ms, self._expire_if_due, message)
        heapq.heappush(self._ready, message.sequence_number)
        self._deliver_ready()

    def _is_available(self, message: StoredMessage) -> bool:
        present = self.messages.get(message.sequence_number) is message
        return present and message.state is MessageState.ACTIVE and message.lock is None

    def _deliver_ready(self) -> None:
        while self._receivers:
            receiver = self._receivers[0]
            if not receiver.ready:
                self._receivers.popleft()
                continue
            message = self._take_ready()
            if message is None:
                return
            self._receivers.rotate(-1)
            self._deliver(receiver, message)

    def _take_ready(self) -> StoredMessage | None:
        while self._ready:
            message = self.messages.get(heapq.heappop(self._ready))
            if message is None or not self._is_available(message):
                continue
            if message.expired(now_ms()):
                self._expire(message)
                continue
            return message
        return None

    def _deliver(self, receiver: Receiver, message: StoredMessage) -> None:
        receiver.use_credit(message.content.size)
        if receiver.deletes_on_delivery:
            self.remove(message)
            self.counters["completed"] += 1
            self._journal.then(self._deliver_deleted, receiver, message)
        else:
            receiver.deliver(message, self.locks.lock(message))

    def _deliver_deleted(self, receiver: Receiver, message: StoredMessage) -> None:
        if not receiver.closed:
            receiver.deliver(message, None)
            return
        self.counters["completed"] -= 1
        self.put_back(message)

    def put_back(self, message: StoredMessage) -> None:
        """Restore a deleted message whose receiver disconnected before it was sent."""
        self.hold(message)
        self._journal.insert(message)
        self._journal.then(self.make_available, message)

    def _expire_if_due(self, message: StoredMessage) -> None:
        message.timer = None
        if self._is_available(message) and message.expired(now_ms()):
            self._expire(message)

    def _on_expired_lock(self, message: StoredMessage) -> None:
        self.counters["locks_expired"] += 1
        self._on_failed_delivery(message)

    # Settlement

    def settle(self, lock: Lock, verdict: Verdict) -> None:
        """Settle a locked message; a refused settlement leaves it locked. Raises OperationError."""
        message = lock.message
        if verdict.properties:
            content = message.content.with_application_properties(verdict.properties)
            content.check_limits()
            self._space.used_bytes += content.size - message.content.size
            message.content = content
        self.locks.release(lock)
        match verdict.settlement:
            case Settlement.COMPLETE:
                self._complete(message)
            case Settlement.ABANDON:
                self.counters["abandoned"] += 1
                self._on_failed_delivery(message)
            case Settlement.DEFER:
                message.state = MessageState.DEFERRED
                self._journal.update(message)
            case Settlement.DEAD_LETTER:
                self._dead_letter(message, verdict.reason, verdict.description)
            case Settlement.RELEASE:
                self._journal.then(self.make_available, message)
            case _:
                assert_never(verdict.settlement)

    def _complete(self, message: StoredMessage) -> None:
        self.counters["completed"] += 1
        if self._faults.repeats(self.key, message.id):
            message.delivery_count += 1
            self._journal.update(message)
            self._journal.then(self.make_available, message)
        else:
            self.remove(message)

    def remove(self, message: StoredMessage) -> None:
        """Delete a message."""
        self._forget(message)
        self._journal.delete(message)

    def hold(self, message: StoredMessage) -> None:
        """Add a message that is in the log or in its next commit."""
        self.messages[message.sequence_number] = message
        self._space.used_bytes += message.content.size

    def _forget(self, message: StoredMessage) -> None:
        del self.messages[message.sequence_number]
        self._space.used_bytes -= message.content.size
        if message.timer is not None:
            message.timer.cancel()
            message.timer = None

    @abstractmethod
    def send(self, contents: list[Content]) -> list[int]:
        """Enqueue messages, all or none, and return their sequence numbers. Raises OperationError."""

    @abstractmethod
    def _on_failed_delivery(self, message: StoredMessage) -> None:
        """Process a message that was abandoned or whose lock expired."""

    @abstractmethod
    def _dead_letter(self, message: StoredMessage, reason: str | None, description: str | None) -> None:
        """Move a message to the dead-letter queue."""

    @abstractmethod
    def _expire(self, message: StoredMessage) -> None:
        """Process a message whose time to live has passed."""

    # Peeking, and operations by sequence number

    def peek(self, first_number: int, count: int) -> list[StoredMessage]:
        """Return messages in any state from sequence number `first_number`, without locking them.

        With `expires_on_receive`, expired messages are included.
        """
        now = now_ms()
        # Nearly in order already, so sorting is as fast as copying.
        numbers = sorted(self.messages)
        later = (self.messages[number] for number in numbers[bisect_left(numbers, first_number) :])
        shows_expired = self._expires_on_receive
        present = (m for m in later if shows_expired or not (m.expired(now) and self._is_available(m)))
        return list(islice(present, max(0, min(count, len(numbers)))))

    def find_deferred(self, sequence_numbers: list[int]) -> list[StoredMessage]:
        """Return unlocked deferred messages. Raises MessageNotFoundError if one is missing or has expired."""
        found = [self.messages.get(number) for number in sequence_numbers]
        deferred = [m for m in found if m is not None and m.state is MessageState.DEFERRED and m.lock is None]
        now = now_ms()
        expired = [message for message in deferred if message.expired(now)]
        for message in expired:
            self._expire(message)
        if expired or len(deferred) != len(sequence_numbers):
            raise MessageNotFoundError
        return deferred

    def cancel_scheduled(self, sequence_numbers: list[int]) -> None:
        """Delete scheduled messages, all or none. Raises MessageNotFoundError."""
        found = [self.messages.get(number) for number in sequence_numbers]
        scheduled = [m for m in found if m is not None and m.state is MessageState.SCHEDULED]
        if len(scheduled) != len(sequence_numbers):
            raise MessageNotFoundError
        for message in scheduled:
            self.remove(message)

    def purge(self) -> int:
        """Delete all messages, in any state, and return how many there were."""
        messages = list(self.messages.values())
        for message in messages:
            if message.lock is not None:
                self.locks.release(message.lock)
            self.remove(message)
        return len(messages)

    def after_commit(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback after the commit of all earlier writes."""
        self._journal.then(callback, *arguments)

    def acknowledge(self, answer: Callable[..., object], *arguments: Any) -> None:
        """Answer a client after the commit (later, if a fault delays it)."""
        delay_ms = self._faults.delay_ms(QueueFaultKind.DELAY_ACKNOWLEDGEMENTS, self.key)
        if delay_ms:
            self._journal.then(self._timers.after, delay_ms, answer, *arguments)
        else:
            self._journal.then(answer, *arguments)

    def check_busy(self) -> None:
        """Raise ServerBusyError if a fault refuses the next operation."""
        self._faults.check_busy(self.key)
