"""Sends messages to queues of Service Bus; those that wait at the same moment leave as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError

from functions.pattern.coalescer import Coalescer
from functions.pattern.errors import TransientError
from functions.pattern.rejected import size_of
from functions.pattern.request_figures import BusFigures
from functions.telemetry.spans import TRACEPARENT, current_traceparent

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusMessage
    from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

#: A batch may hold 256 KB on the Standard tier; headers and properties need their part of it.
_BATCH_BYTES = 200_000
_MESSAGE_OVERHEAD_BYTES = 400

_SEND_SECONDS = 10
_CLOSE_SECONDS = 1

#: The client encodes every whole number as 32 bits, and fails with all of a batch on a larger one.
_WHOLE_NUMBERS = range(-(2**31), 2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message; duplicate detection compares `message_id`. `not_before` (UTC) is its earliest delivery.

    It carries the trace in which it was made, as a batch may be sent in another one.
    """

    message_id: str
    body: bytes
    subject: str | None
    correlation_id: str | None = None
    not_before: datetime | None = None
    seconds_to_live: float | None = None
    traceparent: str | None = field(default_factory=current_traceparent)
    properties: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def key(self) -> int:
        """Any two messages can share a batch."""
        return id(self)

    @property
    def share(self) -> float:
        """Tell which part of a batch this takes."""
        size = len(self.body) + size_of(self.properties) + _MESSAGE_OVERHEAD_BYTES
        return min(1.0, size / _BATCH_BYTES)


class QueueSender:
    """Sends to one queue, over one connection that stays open."""

    def __init__(self, client: ServiceBusClient, queue: str, figures: BusFigures) -> None:
        self._client = client
        self._queue = queue
        self._figures = figures
        self._sender: ServiceBusSender | None = None
        self._coalescer = Coalescer[Outgoing, None](self._send)

    async def send(self, message: Outgoing) -> None:
        """Send the message and see it taken. Raises `TransientError`; the queue may have it nevertheless."""
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await self._coalescer.submit(message)
        except (AzureError, TimeoutError) as error:
            raise TransientError(f"Service Bus: {type(error).__name__}") from error

    async def _send(self, messages: Sequence[Outgoing]) -> list[None]:
        from azure.servicebus.exceptions import OperationTimeoutError  # noqa: PLC0415 - with the first message

        if self._sender is None:
            self._sender = self._client.get_queue_sender(self._queue)
        wired = [_wire(each) for each in messages]
        try:
            # A batch encodes each message twice, so one message goes without it.
            await self._sender.send_messages(wired if len(wired) > 1 else wired[0], timeout=_SEND_SECONDS)
        except OperationTimeoutError:
            await self._drop(self._sender)
            raise
        self._figures.messages += len(messages)
        self._figures.batches += 1
        return [None] * len(messages)

    async def _drop(self, sender: ServiceBusSender) -> None:
        """Have the next message sent over a new connection: the client keeps one that swallows all."""
        self._sender = None
        with suppress(AzureError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await sender.close()


def _wire(message: Outgoing) -> ServiceBusMessage:
    from azure.servicebus import ServiceBusMessage  # noqa: PLC0415 - with the first message

    properties: dict[str | bytes, Any] = {name: _fitting(each) for name, each in message.properties.items()}
    if message.traceparent is not None:
        properties[TRACEPARENT] = message.traceparent
    return ServiceBusMessage(
        message.body,
        message_id=message.message_id,
        content_type="application/json",
        correlation_id=message.correlation_id,
        application_properties=properties or None,
        subject=message.subject,
        scheduled_enqueue_time_utc=message.not_before,
        time_to_live=None if message.seconds_to_live is None else timedelta(seconds=message.seconds_to_live),
    )


def _fitting(value: str | float) -> str | float:
    """Give a property's value, as a text where it is a number that can't be encoded."""
    return str(value) if isinstance(value, int) and value not in _WHOLE_NUMBERS else value
