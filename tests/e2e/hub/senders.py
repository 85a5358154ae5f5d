"""Send orders to the queue or to the event hub without the API."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import batched

from azure.eventhub import EventData
from azure.eventhub.aio import EventHubProducerClient
from azure.eventhub.exceptions import EventHubError

from functions.connections import Connection
from functions.host_functions import utc_now
from functions.messaging.message_format import SubmissionMessage
from functions.messaging.senders import MessageSender, connect_bus

HUB = "order-events"


@dataclass(frozen=True, slots=True)
class Senders:
    """Senders to the queue and to the event hub of one application."""

    queue: MessageSender
    hub: EventHubProducerClient


@asynccontextmanager
async def senders(broker: str) -> AsyncIterator[Senders]:
    """Connect to the queue and the event hub of a broker for the block."""
    bus = connect_bus(Connection(broker, None, None))
    async with bus(), EventHubProducerClient.from_connection_string(broker, eventhub_name=HUB) as hub:
        queue = MessageSender(bus, may_send=lambda _queue: True, now=utc_now, figures=Counter())
        yield Senders(queue, hub)


async def send_until_accepted(hub: EventHubProducerClient, orders: Iterable[SubmissionMessage]) -> None:
    """Send orders to the hub in batches of 100, and each batch again until it is accepted."""
    for batch in batched(orders, 100, strict=False):
        while not await _is_accepted(hub, batch):
            await asyncio.sleep(0.5)


async def _is_accepted(hub: EventHubProducerClient, orders: Iterable[SubmissionMessage]) -> bool:
    try:
        await hub.send_batch([EventData(order.body) for order in orders], timeout=10)
    except EventHubError:
        return False
    return True
