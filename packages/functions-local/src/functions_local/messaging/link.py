"""One receiver of azure-servicebus, used so that neither receiving nor settling waits for the other.

The SDK's connection has a single lock: while a task waits for a frame (0.2 s on an idle queue), no other task
can send. A settlement that waits for its confirmation also takes frames from the receiving task. So one
task owns the link. It waits for messages until `interrupt` signals a pending settlement, and settles without
waiting for confirmations: a lost settlement leads to a redelivery, which at-least-once delivery allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import MessageLockLostError

_log = logging.getLogger(__name__)

#: Seconds to wait for the first message.
_LONG_POLL = 60.0

#: Seconds to wait for each further message of a batch: while messages come one by one, and while they flow.
_LINGER, _LINGER_IN_FLOW = 0.0005, 0.002

#: An expired timeout: the SDK returns the messages that it has already read, without a socket call.
_NO_WAIT = 1e-9

#: Timeout in seconds for closing a receiver. It detaches at once; then the SDK waits up to a second for its
#: keep-alive task, which only sleeps.
_CLOSING = 0.4


class ReceiverLink:
    """A queue's receiver; after a connection error it is closed, and a new one is opened."""

    def __init__(self, receiver: ServiceBusReceiver) -> None:
        #: The SDK's receiver, which lock renewal needs.
        self.receiver = receiver
        self._wait: asyncio.Timeout | None = None
        self._in_flow = False

    @classmethod
    async def open(cls, client: ServiceBusClient, queue: str, *, prefetch: int) -> ReceiverLink:
        """Connect to a queue, which may be a dead-letter queue (`name/$DeadLetterQueue`)."""
        receiver = client.get_queue_receiver(queue, prefetch_count=prefetch)
        receiver._await_settlement_outcome = False  # noqa: SLF001 - no public option; see the module's docstring
        # Not `async with`: the link outlives this method.
        await receiver.__aenter__()
        return cls(receiver)

    def interrupt(self) -> None:
        """End a pending wait for messages."""
        if self._wait is not None and not self._wait.expired():
            self._wait.reschedule(0)

    async def receive(self, limit: int) -> list[ServiceBusReceivedMessage]:
        """Wait for a message; return up to `limit` received messages, or none if interrupted."""
        messages = await self._buffered(limit) or await self._receive_within(_LONG_POLL, 1)
        while messages and len(messages) < limit:
            left = limit - len(messages)
            linger = _LINGER_IN_FLOW if self._in_flow else _LINGER
            more = await self._buffered(left) or await self._receive_within(linger, left)
            if not more:
                break
            messages += more
        self._in_flow = len(messages) > 1
        return messages

    async def settle(self, messages: Sequence[ServiceBusReceivedMessage], *, succeeded: bool) -> None:
        """Complete the messages, or abandon them, so that they are available at once."""
        settle = self.receiver.complete_message if succeeded else self.receiver.abandon_message
        for message in messages:
            try:
                await settle(message)
            except MessageLockLostError:
                _log.warning("the lock of message %s expired; it will be redelivered", message.message_id)

    async def close(self) -> None:
        """Close the link; messages that were read but not returned are released. Never raises."""
        try:
            async with asyncio.timeout(_CLOSING):
                await self.receiver.close()
        except TimeoutError:
            _log.debug("closing a receiver: its keep-alive task did not end in time")
        except Exception as error:  # noqa: BLE001 - the connection was lost already
            _log.debug("closing a receiver: %s", error)

    async def _buffered(self, limit: int) -> list[ServiceBusReceivedMessage]:
        return await self.receiver.receive_messages(limit, max_wait_time=_NO_WAIT)

    async def _receive_within(self, seconds: float, limit: int) -> list[ServiceBusReceivedMessage]:
        # The SDK loses no message when it is cancelled here: bytes stay in the transport, messages in its own
        # queue, which `_buffered` reads next. That queue must be empty before this call: otherwise the SDK
        # keeps its messages in a local variable.
        try:
            async with asyncio.timeout(seconds) as self._wait:
                return await self.receiver.receive_messages(limit, max_wait_time=_LONG_POLL)
        except TimeoutError:
            return await self._buffered(limit)
        finally:
            self._wait = None
