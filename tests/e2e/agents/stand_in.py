"""The Agent `payment`, played by a test: it replies as the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.messages import AGENT_REPLIES_QUEUE, requests_queue
from tests.e2e.recovery.bench import PATIENCE, Bench

#: No Agent of the application serves the queue.
ELSEWHERE = {"AGENTS_ELSEWHERE": "payment"}


@dataclass(frozen=True, slots=True)
class StandIn:
    """The Agent behind the queue pair of a platform with `ELSEWHERE`."""

    bench: Bench
    requests: ServiceBusReceiver
    replies: ServiceBusSender

    @classmethod
    @asynccontextmanager
    async def at(cls, bench: Bench) -> AsyncIterator[Self]:
        """Be connected for the block."""
        connection = bench.platform.addresses.service_bus_connection
        async with (
            ServiceBusClient.from_connection_string(connection) as client,
            client.get_queue_receiver(requests_queue("payment")) as requests,
            client.get_queue_sender(AGENT_REPLIES_QUEUE) as replies,
        ):
            yield cls(bench, requests, replies)

    async def next_request(self) -> AgentRequest:
        """Wait for a request, and complete it."""
        (message,) = await self.requests.receive_messages(max_message_count=1, max_wait_time=PATIENCE)
        await self.requests.complete_message(message)
        return AgentRequest.model_validate_json(b"".join(message.body))

    async def reply(self, *replies: AgentReply | bytes) -> None:
        """Send replies, and wait until the queue has none left, waiting or locked."""
        bodies = [each if isinstance(each, bytes) else each.model_dump_json() for each in replies]
        await self.replies.send_messages([ServiceBusMessage(body) for body in bodies])
        await self.bench.until_empty(AGENT_REPLIES_QUEUE)
