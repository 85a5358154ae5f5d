"""The asynchronous client works the same way."""

from __future__ import annotations

import asyncio

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient, ServiceBusReceiver

from servicebus_local.testing import RunningBroker
from tests.clients import PATIENCE

pytestmark = pytest.mark.process


async def _next_of(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    (message,) = await receiver.receive_messages(1, PATIENCE)
    return message


async def test_async_client_sends_receives_and_settles(broker: RunningBroker) -> None:
    """Sending, every way of settling, deferred messages and dead letters through the asynchronous client."""
    client = ServiceBusClient.from_connection_string(broker.connection_string, retry_total=0)
    async with (
        client,
        client.get_queue_sender("orders") as sender,
        client.get_queue_receiver("orders") as receiver,
    ):
        await sender.send_messages([ServiceBusMessage(str(number)) for number in range(5)])
        done, abandoned, dead, deferred, renewed = [await _next_of(receiver) for _ in range(5)]
        await asyncio.gather(
            receiver.complete_message(done),
            receiver.abandon_message(abandoned),
            receiver.dead_letter_message(dead, reason="bad"),
            receiver.defer_message(deferred),
            receiver.renew_message_lock(renewed),
        )
        await receiver.complete_message(renewed)
        again = await _next_of(receiver)
        assert (str(again), again.delivery_count) == ("1", 1)
        await receiver.complete_message(again)
        (found,) = await receiver.receive_deferred_messages(deferred.sequence_number or 0)
        await receiver.complete_message(found)
        assert await receiver.peek_messages(5, sequence_number=1) == []
    figures = broker.figures("orders")
    assert (figures["active"], figures["deferred"], figures["dead_lettered"]) == (0, 0, 1)


async def test_async_renewer_outlasts_a_lock(broker: RunningBroker) -> None:
    """With a renewer, a handler that takes longer than its lock completes its message."""
    client = ServiceBusClient.from_connection_string(broker.connection_string, retry_total=0)
    async with (
        client,
        client.get_queue_sender("short-lock") as sender,
        client.get_queue_receiver("short-lock") as receiver,
        AutoLockRenewer() as renewer,
    ):
        await sender.send_messages(ServiceBusMessage("long work"))
        message = await _next_of(receiver)
        renewer.register(receiver, message)
        assert await receiver.receive_messages(1, 15) == []
        await receiver.complete_message(message)
    assert broker.figures("short-lock")["locks_expired"] == 0


async def test_async_iteration(broker: RunningBroker) -> None:
    """Iterating returns messages in order until the waiting time ends."""
    client = ServiceBusClient.from_connection_string(broker.connection_string, retry_total=0)
    async with client, client.get_queue_sender("solo") as sender:
        await sender.send_messages([ServiceBusMessage(str(number)) for number in range(20)])
        async with client.get_queue_receiver("solo", max_wait_time=3) as receiver:
            bodies: list[str] = []
            async for message in receiver:
                await receiver.complete_message(message)
                bodies.append(str(message))
    assert bodies == [str(number) for number in range(20)]
