"""The application's queues, as `infra/queues.json` defines them, and how long a message of each is tried."""

from __future__ import annotations

from collections.abc import Mapping

from functions.pattern.messages import SUBMISSIONS_QUEUE

#: Every queue, with the seconds for which a message that was taken off it is locked.
QUEUES: Mapping[str, float] = {
    "submissions": 60,
    "scheduler-requests": 60,
    "agent-payment-requests": 15,
    "agent-replies": 60,
    "operator-alerts": 60,
    "notices-demo": 60,
}

#: The part of a lock that one delivery may take; the rest is for the host to settle the message.
_PART_OF_LOCK = 0.75

_DEAD_LETTERS = "/$DeadLetterQueue"

#: What begins the name of an event hub among queues, whose names hold no such character.
_HUB = "eventhub|"


def patience_of(queue: str) -> float:
    """Give the seconds for which one delivery of a message is tried: they end inside the queue's lock.

    A dead-letter queue has the lock of its queue.
    """
    return QUEUES[living_queue(queue)] * _PART_OF_LOCK


def dead_letter_queue(queue: str) -> str:
    """Name the dead-letter queue of a queue, as Service Bus does; an event hub has none."""
    return queue if queue.startswith(_HUB) else f"{queue}{_DEAD_LETTERS}"


def hub_source(hub: str) -> str:
    """Name an event hub where queues are named."""
    return f"{_HUB}{hub}"


def queue_of_another_try(source: str) -> str:
    """Name the queue on which a message is sent again: its own, or the orders' for an event."""
    return SUBMISSIONS_QUEUE if source.startswith(_HUB) else living_queue(source)


def living_queue(queue: str) -> str:
    """Name the queue to which dead letters belong, or the queue itself."""
    return queue.removesuffix(_DEAD_LETTERS)
