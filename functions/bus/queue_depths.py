"""Looks into queues by peeking: counts messages up to a limit, and estimates how many wait in line.

Exact counts need the right to manage the queues, and to peek at every message is to read all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError

from functions.pattern.errors import TransientError
from functions.pattern.intake import Line
from functions.pattern.ports import Pile, QueueDepth

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue
    from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

#: Seconds for a look at one queue's depth, and for one at the line.
_LOOK_SECONDS, _LINE_SECONDS = 4, 8
#: Messages that may be retried without end while the queue does not seem old.
_STUCK_MESSAGES = 20

_log = logging.getLogger(__name__)


class PeekedQueues:
    """Peeks into queues and their dead-letter queues, over receivers that stay open."""

    def __init__(self, client: Callable[[], ServiceBusClient], queues: Sequence[str]) -> None:
        self._client = client
        self._queues = queues
        self._receivers: dict[tuple[str, ServiceBusSubQueue | None], ServiceBusReceiver] = {}
        #: A receiver that one look closes must not be in use by another.
        self._turn = asyncio.Lock()

    async def depths(self) -> Sequence[QueueDepth]:
        """Look at every queue, in a few seconds at most; None stands for what can't be seen."""
        from azure.servicebus import ServiceBusSubQueue  # noqa: PLC0415 - with the first look

        parts = (None, ServiceBusSubQueue.DEAD_LETTER)
        async with self._turn:
            piles = await asyncio.gather(
                *(self._look(queue, part) for queue in self._queues for part in parts)
            )
        return list(map(QueueDepth, self._queues, piles[::2], piles[1::2]))

    async def _look(self, queue: str, part: ServiceBusSubQueue | None) -> Pile | None:
        most_messages = 100  # a look transfers their bodies, too
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                seen = await _peeked(self._receiver(queue, part), most_messages)
        except (AzureError, TimeoutError, ValueError, asyncio.CancelledError) as fault:
            if isinstance(fault, asyncio.CancelledError) and _is_cancelled():
                raise
            _log.warning("queue %s can't be looked at: %s", queue, type(fault).__name__)
            await self._drop(queue, part)
            return None
        return _stats(seen, more=len(seen) == most_messages)

    def _receiver(self, queue: str, part: ServiceBusSubQueue | None) -> ServiceBusReceiver:
        if (queue, part) not in self._receivers:
            # No credit is given, so that nothing is delivered to it.
            receiver = self._client().get_queue_receiver(queue, sub_queue=part, prefetch_count=0)
            self._receivers[queue, part] = receiver
        return self._receivers[queue, part]

    async def _drop(self, queue: str, part: ServiceBusSubQueue | None) -> None:
        try:
            await _close(self._receivers.pop((queue, part), None))
        except asyncio.CancelledError:
            if _is_cancelled():
                raise


def _is_cancelled() -> bool:
    """Tell whether this look was cancelled, not only what the client has of its own for its connection."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _peeked(receiver: ServiceBusReceiver, most: int) -> Sequence[ServiceBusReceivedMessage]:
    """Peek until there is nothing, or enough: one answer can hold fewer than requested."""
    seen: list[ServiceBusReceivedMessage] = []
    following = 1  # without a number, a receiver continues after its latest peek
    while len(seen) < most:
        some = await receiver.peek_messages(most - len(seen), sequence_number=following)
        if not some:
            break
        seen += some
        following = (some[-1].sequence_number or 0) + 1
    return seen


def _stats(seen: Sequence[ServiceBusReceivedMessage], *, more: bool) -> Pile:
    from azure.servicebus import ServiceBusMessageState  # noqa: PLC0415 - as above

    there = [each for each in seen if each.state is not ServiceBusMessageState.SCHEDULED]
    times = [each.enqueued_time_utc for each in there if each.enqueued_time_utc is not None]
    return Pile(
        count=len(there),
        more=more,
        oldest_at=min(times, default=None),
        scheduled=len(seen) - len(there),
    )


class PeekedLine:
    """Peeks at one queue, over a receiver that stays open."""

    def __init__(self, client: Callable[[], ServiceBusClient], queue: str) -> None:
        self._client = client
        self._queue = queue
        self._receiver: ServiceBusReceiver | None = None

    async def look(self) -> Line:
        """Tell how many messages wait, and since when. Raises `TransientError`."""
        try:
            async with asyncio.timeout(_LINE_SECONDS):
                return await self._measured()
        except (AzureError, TimeoutError, ValueError) as fault:
            await self._drop()
            raise TransientError(f"queue {self._queue}: {type(fault).__name__}") from fault

    async def _measured(self) -> Line:
        first = await self._peek(1)
        if first is None:
            return Line(0, None)
        begin = _number(first)
        end = begin + 2**24  # numbers beyond it are those of another partition of the queue
        later = await self._peek(begin + _STUCK_MESSAGES - 1, until=end)
        if later is None:
            return Line(1, None)
        # One that waits for a time of its own has not waited for us.
        is_scheduled = later.state is type(later.state).SCHEDULED
        last = await self._last(begin, _number(later), end)
        if _number(later) >= begin + 2 * _STUCK_MESSAGES:  # others have passed those before it long ago
            begin = await self._head(_number(later), last)
            last = await self._last(begin, begin, end)
        return Line(last - begin + 1, None if is_scheduled else later.enqueued_time_utc)

    async def _last(self, begin: int, there: int, end: int) -> int:
        """Return nearly the last number: twice as far each time, then halving; an eighth too low at most."""
        distance = 2 * (there - begin + 1)
        while begin + distance < end:
            found = await self._peek(begin + distance, until=end)
            if found is None:
                end = begin + distance
                break
            there = _number(found)
            distance = 2 * (there - begin + 1)
        while end - there > max(1, (there - begin) / 8):
            middle = (there + end) // 2
            found = await self._peek(middle, until=end)
            if found is None:
                end = middle
            else:
                there = _number(found)
        return there

    async def _head(self, begin: int, last: int) -> int:
        """Give nearly the first number from which on there is no gap: a few before it may wait for hours."""
        head = last
        while head - begin > max(_STUCK_MESSAGES, (last - head) / 8):
            middle = (begin + head) // 2
            found = await self._peek(middle, until=last + 1)
            there = last if found is None else _number(found)
            if there < middle + _STUCK_MESSAGES:
                head = middle
            else:
                begin = min(there, head)
        return head

    async def _peek(self, number: int, *, until: int | None = None) -> ServiceBusReceivedMessage | None:
        if self._receiver is None:
            # No credit is given, so that nothing is delivered to it.
            self._receiver = self._client().get_queue_receiver(self._queue, prefetch_count=0)
        found = await self._receiver.peek_messages(1, sequence_number=number)
        return found[0] if found and (until is None or _number(found[0]) < until) else None

    async def _drop(self) -> None:
        receiver, self._receiver = self._receiver, None
        await _close(receiver)


async def _close(receiver: ServiceBusReceiver | None) -> None:
    if receiver is not None:
        with suppress(AzureError, TimeoutError):
            async with asyncio.timeout(1):
                await receiver.close()


def _number(message: ServiceBusReceivedMessage) -> int:
    return message.sequence_number or 0
