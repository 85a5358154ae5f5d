"""Counts the messages of queues up to a limit, by peeking: exact counts need the right to manage them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError

from functions.pattern.ports import Pile, QueueDepth

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue
    from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

#: Messages that are counted; their bodies are transferred, too.
_MOST = 100

_LOOK_SECONDS = 4

#: Sequence numbers begin here (Service Bus); without one, a receiver goes on where it looked last.
_FROM_THE_FIRST = 1

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
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                seen = await _peeked(self._receiver(queue, part))
        except (AzureError, TimeoutError, ValueError, asyncio.CancelledError) as fault:
            if isinstance(fault, asyncio.CancelledError) and _is_cancelled():
                raise
            _log.warning("queue %s can't be looked at: %s", queue, type(fault).__name__)
            await self._drop(queue, part)
            return None
        return _pile(seen)

    def _receiver(self, queue: str, part: ServiceBusSubQueue | None) -> ServiceBusReceiver:
        if (queue, part) not in self._receivers:
            # No credit is given, so that nothing is delivered to it.
            receiver = self._client().get_queue_receiver(queue, sub_queue=part, prefetch_count=0)
            self._receivers[queue, part] = receiver
        return self._receivers[queue, part]

    async def _drop(self, queue: str, part: ServiceBusSubQueue | None) -> None:
        """Let the next look begin with a new connection."""
        receiver = self._receivers.pop((queue, part), None)
        if receiver is None:
            return
        try:
            async with asyncio.timeout(1):
                await receiver.close()
        except (AzureError, TimeoutError):
            return
        except asyncio.CancelledError:
            if _is_cancelled():
                raise


def _is_cancelled() -> bool:
    """Tell whether this look was cancelled, not only what the client has of its own for its connection."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _peeked(receiver: ServiceBusReceiver) -> Sequence[ServiceBusReceivedMessage]:
    """Peek until there is nothing, or enough: one answer can hold less than was asked for."""
    seen: list[ServiceBusReceivedMessage] = []
    following = _FROM_THE_FIRST
    while len(seen) < _MOST:
        some = await receiver.peek_messages(_MOST - len(seen), sequence_number=following)
        if not some:
            break
        seen += some
        following = (some[-1].sequence_number or 0) + 1
    return seen


def _pile(seen: Sequence[ServiceBusReceivedMessage]) -> Pile:
    from azure.servicebus import ServiceBusMessageState  # noqa: PLC0415 - as above

    there = [each for each in seen if each.state is not ServiceBusMessageState.SCHEDULED]
    times = [each.enqueued_time_utc for each in there if each.enqueued_time_utc is not None]
    return Pile(
        count=len(there),
        more=len(seen) == _MOST,
        oldest_at=min(times, default=None),
        scheduled=len(seen) - len(there),
    )
