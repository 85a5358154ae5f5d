"""Counts the notices that the application sends to the demo's reply queue."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from azure.servicebus import ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

#: The reply queue that the demo's orders name.
REPLY_QUEUE = "notices-demo"
#: Seconds in which the last notices must arrive.
_PATIENCE = 15.0
_LOOK_EVERY = 0.1
_AT_ONCE = 100


class Notices:
    """Counts notices by kind, for the orders that are watched; others are received and ignored."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._watched = set[str]()

    def watch(self, order_ids: set[str]) -> None:
        """Count the notices about these orders."""
        self._watched = order_ids

    async def until(self, count: int) -> None:
        """Wait until so many have arrived, for `_PATIENCE` seconds at most."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while self.counts.total() < count and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_EVERY)  # what is waited for comes from another process

    async def take(self, receiver: ServiceBusReceiver) -> None:
        """Receive notices until cancelled."""
        while True:
            for message in await receiver.receive_messages(_AT_ONCE, max_wait_time=1):
                notice = json.loads(str(message))
                if notice["id"] in self._watched:
                    self.counts[notice["kind"]] += 1


@asynccontextmanager
async def listening(connection: str | None) -> AsyncIterator[Notices]:
    """Listen on the reply queue for the block; without a connection nothing is received."""
    notices = Notices()
    if connection is None:
        yield notices
        return
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver(
            REPLY_QUEUE, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        ) as receiver,
    ):
        taking = asyncio.create_task(notices.take(receiver))
        try:
            yield notices
        finally:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
