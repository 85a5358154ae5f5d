"""Send orders to the queue or to the event hub without the API."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import batched

from functions.connections import Connection
from functions.machine import utc_now
from functions.messaging.bus_clients import connect_bus, connect_hub
from functions.messaging.senders import HubSender, MessageSender
from tests.e2e.hub.letters import letter

HUB = "order-events"


@dataclass(frozen=True, slots=True)
class Senders:
    """Senders to the queue and to the event hub of one application."""

    queue: MessageSender
    hub: HubSender


@asynccontextmanager
async def senders(broker: str) -> AsyncIterator[Senders]:
    """Connect to the queue and the event hub of a broker for the block."""
    connection, figures = Connection(broker, None, None), Counter[str]()
    hub, bus = connect_hub(connection, HUB), connect_bus(connection)
    async with bus(), hub():
        queue = MessageSender(bus, may_send=lambda _queue: True, now=utc_now, figures=figures)
        yield Senders(queue, HubSender(hub, figures))


async def send_until_accepted(hub: HubSender, tasks: Sequence[str]) -> None:
    """Send orders to the hub, four batches of 500 at a time, and each again until it is accepted."""
    left = iter(batched(tasks, 500, strict=False))

    async def send() -> None:
        for batch in left:
            messages = [letter(task) for task in batch]
            while messages:
                results = await hub.submit(messages)
                messages = [each for each, error in zip(messages, results, strict=True) if error is not None]
                if messages:
                    await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(send())
