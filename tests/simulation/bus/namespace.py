"""The simulated namespace: queues and their messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from functions.messages.queues import dead_letter_queue
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.world.world import World


@dataclass(eq=False, slots=True)
class QueuedMessage:
    """One message; times are virtual. `locked` is the number of its delivery under way."""

    body: bytes
    message_id: str | None
    subject: str | None
    correlation_id: str | None
    application_properties: Mapping[str, Any]
    available_at: float
    expires_at: float
    number: int = 0
    deliveries: int = 0
    locked: int | None = None

    @property
    def label(self) -> str | None:
        """Give the subject, by its former name."""
        return self.subject

    def get_body(self) -> bytes:
        """Give the body."""
        return self.body


@dataclass(frozen=True, slots=True)
class QueueRules:
    """How a queue treats its messages, in seconds."""

    lock: float
    deliveries: int
    to_live: float
    dead_letters_expired: bool
    #: How long ids are kept to find duplicates; None: they are not looked for.
    remembers_ids: float | None


@dataclass(slots=True)
class SimulatedQueue:
    """A queue, with its dead letters as another."""

    name: str
    rules: QueueRules
    dead: SimulatedQueue | None = None
    messages: list[QueuedMessage] = field(default_factory=list)
    ids: dict[str, float] = field(default_factory=dict)

    def is_duplicate(self, message_id: str | None, now: float) -> bool:
        """Tell whether a message with this id came before, and keep the id."""
        if self.rules.remembers_ids is None or message_id is None:
            return False
        known = self.ids.get(message_id)
        if known is not None and now < known + self.rules.remembers_ids:
            return True
        self.ids[message_id] = now
        return False


_QUEUES = Path(__file__).parents[3] / "infra/queues.json"
_FOR_EVER = 1e12

#: Is told that messages of a queue may be delivered now.
type Poke = Callable[[str], None]


class Namespace:
    """All queues. `poke` delivers what is there."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.queues = {queue.name: queue for queue in _load()}
        self.queues |= {queue.dead.name: queue.dead for queue in self.queues.values() if queue.dead}
        self.poke: Poke = lambda _queue: None
        self._numbers = count(1)
        #: The part of messages that come late.
        self.late = 0.0
        #: Queues that are not there.
        self.gone: set[str] = set()
        #: Messages that died, with their queues.
        self.buried: list[tuple[str, QueuedMessage]] = []

    def delay(self, queue: str, message: QueuedMessage) -> float:
        """Tell by how many seconds a message is late."""
        chance = self._world.chance("late messages")
        if not self.late or chance.random() >= self.late:
            return 0.0
        self._world.fault(SimulatedFault.LATE_MESSAGES, queue, str(message.message_id))
        return chance.uniform(1, 120)

    def accept(self, queue: str, message: QueuedMessage, delay: float = 0.0) -> bool:
        """Take a message, unless it is a duplicate; tell whether it was taken."""
        there, now = self.queues[queue], self._world.loop.time()
        if there.is_duplicate(message.message_id, now):
            self._world.tell(queue, f"drops {message.message_id}, a duplicate")
            return False
        message.number = next(self._numbers)
        message.available_at += delay
        message.expires_at = min(message.expires_at, max(now, message.available_at) + there.rules.to_live)
        there.messages.append(message)
        self._poke_at(queue, message.available_at)
        if message.expires_at < _FOR_EVER:
            self._world.loop.call_at(message.expires_at, self._expire, there, message)
        return True

    def take(self, queue: str, most: int) -> list[QueuedMessage]:
        """Lock messages for one delivery, in any order."""
        there, now = self.queues[queue], self._world.loop.time()
        free = [each for each in there.messages if each.locked is None and each.available_at <= now]
        taken = self._world.chance("order of messages").sample(free, min(most, len(free)))
        for each in taken:
            each.deliveries += 1
            each.locked = each.deliveries
        return taken

    def complete(self, queue: str, message: QueuedMessage, delivery: int) -> bool:
        """Remove a message, if this delivery still has its lock; tell whether."""
        there = self.queues[queue]
        if message.locked != delivery or message not in there.messages:
            self._world.tell(queue, f"{message.message_id}: its lock is lost")
            return False
        there.messages.remove(message)
        return True

    def release(self, queue: str, message: QueuedMessage, delivery: int, after: float = 0.0) -> None:
        """Give a message back, or let its lock expire after some time; it dies after too many deliveries."""
        if after:
            self._world.loop.call_later(after, self.release, queue, message, delivery)
            return
        there = self.queues[queue]
        if message.locked != delivery or message not in there.messages:
            return
        message.locked = None
        if message.deliveries >= there.rules.deliveries and there.dead is not None:
            self.bury(there, message, "MaxDeliveryCountExceeded")
            return
        self._poke_at(queue, self._world.loop.time())

    def deliver_again(self, queue: str, message: QueuedMessage, after: float) -> None:
        """Have a message, which may be done with, come once more."""
        again = replace(
            message, locked=None, available_at=self._world.loop.time() + after, number=next(self._numbers)
        )
        self.queues[queue].messages.append(again)
        self._poke_at(queue, again.available_at)

    def _expire(self, queue: SimulatedQueue, message: QueuedMessage) -> None:
        if message not in queue.messages:
            return
        if message.locked is not None:  # looked at again when its lock is over
            self._world.loop.call_later(queue.rules.lock, self._expire, queue, message)
        elif queue.rules.dead_letters_expired and queue.dead is not None:
            self.bury(queue, message, "TTLExpiredException")
        else:
            queue.messages.remove(message)
            self._world.tell(queue.name, f"{message.message_id}: its time to live is over")

    def bury(self, queue: SimulatedQueue, message: QueuedMessage, reason: str) -> None:
        """Have a message die."""
        assert queue.dead is not None
        self.buried.append((queue.name, message))
        queue.messages.remove(message)
        self._world.tell(queue.name, f"dead-letters {message.message_id} ({reason})")
        dead = replace(
            message,
            application_properties={**message.application_properties, "DeadLetterReason": reason},
            deliveries=0,
            locked=None,
            available_at=self._world.loop.time(),
            expires_at=_FOR_EVER,
        )
        queue.dead.messages.append(dead)
        self._poke_at(queue.dead.name, dead.available_at)

    def _poke_at(self, queue: str, at: float) -> None:
        self._world.loop.call_at(max(at, self._world.loop.time()), self.poke, queue)


def _load() -> Iterable[SimulatedQueue]:
    for each in json.loads(_QUEUES.read_text(encoding="utf-8"))["queues"]:
        rules = _rules(each["properties"])
        endless = replace(rules, to_live=_FOR_EVER, deliveries=10**6, remembers_ids=None)
        yield SimulatedQueue(each["name"], rules, SimulatedQueue(dead_letter_queue(each["name"]), endless))


def _rules(properties: Mapping[str, Any]) -> QueueRules:
    looks = properties["requiresDuplicateDetection"]
    window = properties.get("duplicateDetectionHistoryTimeWindow")
    return QueueRules(
        lock=_seconds(properties["lockDuration"]),
        deliveries=properties["maxDeliveryCount"],
        to_live=_seconds(properties["defaultMessageTimeToLive"]),
        dead_letters_expired=properties["deadLetteringOnMessageExpiration"],
        remembers_ids=_seconds(window) if looks and window else None,
    )


_UNITS = {"S": 1, "M": 60, "H": 3600, "D": 86_400}


def _seconds(duration: str) -> float:
    """Read the ISO durations that the file has: one number with its unit."""
    number, unit = duration.removeprefix("P").removeprefix("T")[:-1], duration[-1]
    return float(number) * _UNITS[unit]
