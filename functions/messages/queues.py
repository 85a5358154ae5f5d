"""The application's queues, as `infra/queues.json` defines them, and how long a message of each is tried."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from random import SystemRandom

from functions.pattern.errors import TransientError
from functions.pattern.messages import SUBMISSIONS_QUEUE
from functions.pattern.ports import Clock

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
    """Return the seconds that a delivery is tried, inside the queue's lock; also for a dead-letter queue."""
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


#: The longest wait before the second try; the bound doubles with each further try.
_FIRST_WAIT_SECONDS = 0.2

_random = SystemRandom()


async def again_until[ResultT](
    until: datetime, work: Callable[[], Awaitable[ResultT]], clock: Clock
) -> ResultT:
    """Do `work`, and again until then (UTC) while it raises `TransientError`; raise the last of them."""

    def left() -> float:
        return (until - clock.now()).total_seconds()

    return await _again(work, left)


async def again_for[ResultT](seconds: float, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Do `work`, and again for so many seconds while it raises `TransientError`; raise the last of them."""
    time = asyncio.get_running_loop().time
    end = time() + seconds
    return await _again(work, lambda: end - time())


async def _again[ResultT](work: Callable[[], Awaitable[ResultT]], left: Callable[[], float]) -> ResultT:
    """Try for as long as time is `left` after a wait, in seconds: the fault is told before that ends."""
    tries = 0
    while True:
        most_seconds = min(5.0, _FIRST_WAIT_SECONDS * 2 ** min(tries, 10))
        wait = most_seconds * _random.random()
        try:
            return await work()
        except TransientError:
            if wait >= left():
                raise
        tries += 1
        await asyncio.sleep(wait)
