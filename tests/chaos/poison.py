"""Puts messages on the submissions queue that are no submissions."""

from __future__ import annotations

import asyncio

from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from tests.chaos.faults import FaultKind
from tests.chaos.plan import Plan, Poison
from tests.chaos.tally import Tally

_QUEUE = "submissions"
#: Seconds before a message that the broker did not take is sent again.
_PAUSE = 1.0


class PoisonSender:
    """Sends a plan's poison messages, each at its time, until the broker has it."""

    def __init__(self, connection: str, plan: Plan, tally: Tally) -> None:
        self._connection = connection
        self._plan = plan
        self._tally = tally
        self._waiting = {poison.id for poison in plan.poison}

    @property
    def waiting(self) -> list[str]:
        """Messages that the broker does not have yet."""
        return sorted(self._waiting)

    async def send_all(self) -> None:
        """Send every message; ends when the broker has them all."""
        async with (
            ServiceBusClient.from_connection_string(self._connection) as client,
            asyncio.TaskGroup() as sending,
        ):
            for poison in self._plan.poison:
                sending.create_task(self._send(client, poison))

    async def _send(self, client: ServiceBusClient, poison: Poison) -> None:
        await asyncio.sleep(poison.at)
        while poison.id in self._waiting:
            try:
                async with client.get_queue_sender(_QUEUE) as sender:
                    await sender.send_messages(ServiceBusMessage(poison.body, message_id=poison.id))
            except AzureError:
                await asyncio.sleep(_PAUSE)
            else:
                self._waiting.remove(poison.id)
                self._tally.add(FaultKind.POISON_MESSAGE)
