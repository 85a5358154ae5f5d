"""The depths of queues, measured by peeks: an exact count needs the right to manage the queues.

A peek returns messages with their bodies and takes none. It returns locked and scheduled messages as well.
Times are UTC.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError
from pydantic import AwareDatetime

from functions.messaging.received_messages import NotHandledError, within

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue
    from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

_log = logging.getLogger(__name__)

#: Seconds for the depth of one queue, and for its backlog.
_DEPTH_SECONDS, _BACKLOG_SECONDS = 4, 8
#: Messages of one page, and pages that are read until one has a message that was never delivered.
_PAGE, _MOST_PAGES = 100, 10
#: Numbers of messages beyond this distance belong to another partition of the queue.
_PARTITION_NUMBERS = 2**24
#: Bytes of the headers of one message.
_HEADER_BYTES = 400


@dataclass(frozen=True, slots=True)
class Depth:
    """`count` messages (`has_more`: at least), and `scheduled` ones beside them.

    The oldest message was enqueued at `oldest_at`.
    """

    count: int
    has_more: bool
    oldest_at: AwareDatetime | None
    scheduled: int = 0


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The depths of one queue and of its dead letters. None: it cannot be read."""

    queue: str
    waiting: Depth | None
    dead: Depth | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """The messages that wait in a queue: their number, their bytes, and the time of the oldest one."""

    messages: int
    size: int
    oldest_at: AwareDatetime | None


class PeekedQueues:
    """Peeks into queues and their dead-letter queues. Receivers stay open."""

    def __init__(self, client: Callable[[], ServiceBusClient], queues: Sequence[str]) -> None:
        self._client, self._queues = client, queues
        self._receivers: dict[tuple[str, ServiceBusSubQueue | None], ServiceBusReceiver] = {}
        #: A receiver that is closed after a fault must not be in use.
        self._lock = asyncio.Lock()

    async def depths(self) -> Sequence[QueueDepth]:
        """Return the depths of all queues within a few seconds."""
        from azure.servicebus import ServiceBusSubQueue  # noqa: PLC0415 - only the Supervisor imports it

        parts = (None, ServiceBusSubQueue.DEAD_LETTER)
        places = [(queue, part) for queue in self._queues for part in parts]
        async with self._lock:
            depths = await asyncio.gather(*(self._peek(*place, _depth, _DEPTH_SECONDS) for place in places))
        return list(map(QueueDepth, self._queues, depths[::2], depths[1::2]))

    async def backlog(self, queue: str) -> Backlog | None:
        """Return the backlog of a queue, None if it cannot be read.

        Scheduled messages do not count. A message that was delivered before is under way or is tried again,
        so it is not the oldest unless all messages of the first pages are such. A short queue is counted
        exactly. `messages` of a longer one is estimated by the numbers of the first and the last message: it
        includes messages in between that were taken or scheduled. `size` is then estimated by the average of
        the first pages. Other partitions of a partitioned queue are not included. A peek cannot measure the
        bytes that Service Bus counts beside bodies; 400 bytes for each message are added.
        """
        async with self._lock:
            return await self._peek(queue, None, _backlog, _BACKLOG_SECONDS)

    async def _peek[ResultT](
        self,
        queue: str,
        part: ServiceBusSubQueue | None,
        measure: Callable[[ServiceBusReceiver], Awaitable[ResultT]],
        seconds: float,
    ) -> ResultT | None:
        try:
            return await within(seconds, measure(self._receiver(queue, part)))
        except (AzureError, NotHandledError, ValueError) as fault:
            _log.warning("queue %s cannot be read: %s", queue, type(fault).__name__)
            receiver = self._receivers.pop((queue, part), None)
            with suppress(AzureError, NotHandledError):
                await within(1, receiver.close() if receiver is not None else asyncio.sleep(0))
            return None

    def _receiver(self, queue: str, part: ServiceBusSubQueue | None) -> ServiceBusReceiver:
        if (queue, part) not in self._receivers:
            # Without credit, no message is delivered to it.
            receiver = self._client().get_queue_receiver(queue, sub_queue=part, prefetch_count=0)
            self._receivers[queue, part] = receiver
        return self._receivers[queue, part]


async def _page(receiver: ServiceBusReceiver, number: int) -> list[ServiceBusReceivedMessage]:
    """Return a page of messages from a number on. One answer may have fewer messages than requested."""
    page: list[ServiceBusReceivedMessage] = []
    while len(page) < _PAGE:
        part = await receiver.peek_messages(_PAGE - len(page), sequence_number=number)
        if not part:
            break
        page += part
        number = _number(part[-1]) + 1
    return page


async def _depth(receiver: ServiceBusReceiver) -> Depth:
    page = await _page(receiver, 1)
    waiting = [message for message in page if not _is_scheduled(message)]
    times = [message.enqueued_time_utc for message in waiting if message.enqueued_time_utc is not None]
    return Depth(
        count=len(waiting),
        has_more=len(page) == _PAGE,
        oldest_at=min(times, default=None),
        scheduled=len(page) - len(waiting),
    )


async def _backlog(receiver: ServiceBusReceiver) -> Backlog:
    waiting: list[ServiceBusReceivedMessage] = []
    undelivered: list[ServiceBusReceivedMessage] = []
    number, is_complete = 1, False
    for _ in range(_MOST_PAGES):
        page = await _page(receiver, number)
        waiting += [message for message in page if not _is_scheduled(message)]
        undelivered = [message for message in waiting if not message.delivery_count]
        is_complete = len(page) < _PAGE
        if undelivered or is_complete:
            break
        number = _number(page[-1]) + 1
    if not waiting:
        return Backlog(0, 0, None)
    first, size = (undelivered or waiting)[0], sum(map(_size, waiting))
    if is_complete:
        return Backlog(len(waiting), size, first.enqueued_time_utc)
    count = await _last_number(receiver, _number(waiting[-1])) - _number(first) + 1
    return Backlog(count, size * count // len(waiting), first.enqueued_time_utc)


async def _last_number(receiver: ServiceBusReceiver, number: int) -> int:
    """Return nearly the last number of a queue from one that exists: at most an eighth is missing."""
    begin, end = number, number + _PARTITION_NUMBERS
    distance = _PAGE
    while end - number > max(1, (number - begin) // 8):
        middle = min(begin + distance, (number + end) // 2)
        found = await receiver.peek_messages(1, sequence_number=middle)
        if found and _number(found[0]) < end:
            number = _number(found[0])
            distance = 2 * (number - begin + 1)
        else:
            end = middle
    return number


def _is_scheduled(message: ServiceBusReceivedMessage) -> bool:
    return message.state is type(message.state).SCHEDULED


def _number(message: ServiceBusReceivedMessage) -> int:
    return message.sequence_number or 0


def _size(message: ServiceBusReceivedMessage) -> int:
    body = message.body
    return _HEADER_BYTES + (len(body) if isinstance(body, bytes) else sum(map(len, body)))


async def log_queue_ages(queues: PeekedQueues, now: Callable[[], datetime]) -> None:
    """Log the age of the oldest message of each queue for an alert rule. Service Bus counts only."""
    for depth in await queues.depths():
        if depth.waiting is not None and depth.waiting.oldest_at is not None:
            age = (now() - depth.waiting.oldest_at).total_seconds()
            # The clock of the service may be ahead.
            facts = {"queue": depth.queue, "oldest_seconds": max(0, round(age))}
            _log.info("messages wait %s", json.dumps(facts))
