"""Tells how long a queue's line is, by a few peeks at sequence numbers: to count would be to read all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError

from functions.pattern.errors import TransientError
from functions.pattern.intake import Line

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage
    from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

#: So many messages may be tried again and again without the queue's seeming old.
_STUCK = 20
#: Counting ends here. Numbers that lie further apart are those of another partition of the queue.
_MOST = 2**24
#: The count is at most so much of itself too small.
_PART = 1 / 8
_LOOK_SECONDS = 8

#: Sequence numbers begin here (Service Bus).
_FIRST = 1


class PeekedLine:
    """Peeks at one queue, over a receiver that stays open."""

    def __init__(self, client: Callable[[], ServiceBusClient], queue: str) -> None:
        self._client = client
        self._queue = queue
        self._receiver: ServiceBusReceiver | None = None

    async def look(self) -> Line:
        """Tell how many messages wait, and since when. Raises `TransientError`."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await self._measured()
        except (AzureError, TimeoutError, ValueError) as fault:
            await self._drop()
            raise TransientError(f"queue {self._queue}: {type(fault).__name__}") from fault

    async def _measured(self) -> Line:
        first = await self._peek(_FIRST)
        if first is None:
            return Line(0, None)
        begin = _number(first)
        later = await self._peek(begin + _STUCK - 1, until=begin + _MOST)
        if later is None:
            return Line(1, None)
        # One that waits for a time of its own has not waited for us.
        is_scheduled = later.state is type(later.state).SCHEDULED
        last = await self._last(begin, _number(later))
        if _number(later) >= begin + 2 * _STUCK:  # others have passed those before it long ago
            begin = await self._head(_number(later), last)
            last = await self._last(begin, begin)
        return Line(last - begin + 1, None if is_scheduled else later.enqueued_time_utc)

    async def _last(self, begin: int, there: int) -> int:
        """Give nearly the last number that is there: twice as far each time, then halving what is left."""
        end = begin + _MOST
        distance = 2 * (there - begin + 1)
        while begin + distance < end:
            found = await self._peek(begin + distance, until=end)
            if found is None:
                end = begin + distance
                break
            there = _number(found)
            distance = 2 * (there - begin + 1)
        while end - there > max(1, (there - begin) * _PART):
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
        while head - begin > max(_STUCK, (last - head) * _PART):
            middle = (begin + head) // 2
            found = await self._peek(middle, until=last + 1)
            there = last if found is None else _number(found)
            if there < middle + _STUCK:
                head = middle
            else:
                begin = min(there, head)
        return head

    async def _peek(self, number: int, *, until: int | None = None) -> ServiceBusReceivedMessage | None:
        """Give the first message from a number on, and before another; None without any."""
        if self._receiver is None:
            # No credit is given, so that nothing is delivered to it.
            self._receiver = self._client().get_queue_receiver(self._queue, prefetch_count=0)
        found = await self._receiver.peek_messages(1, sequence_number=number)
        return found[0] if found and (until is None or _number(found[0]) < until) else None

    async def _drop(self) -> None:
        """Let the next look begin with a new connection."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            with suppress(AzureError, TimeoutError):
                async with asyncio.timeout(1):
                    await receiver.close()


def _number(message: ServiceBusReceivedMessage) -> int:
    return message.sequence_number or 0
