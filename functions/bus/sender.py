"""Sends messages to queues of Service Bus; those that wait at the same moment leave as one batch."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError

from functions.connections import Connection, connection_string_of
from functions.pattern.coalescer import Coalescer
from functions.pattern.errors import TransientError
from functions.pattern.rejected import size_of
from functions.pattern.request_figures import BusFigures
from functions.telemetry.spans import TRACEPARENT, current_traceparent

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusMessage
    from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

#: Seconds for one send, also of events.
SEND_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One message; duplicate detection compares `message_id`. `not_before` (UTC) is its earliest delivery."""

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
        """Return the part of a batch that this takes: of 256 KB on the Standard tier, headers need some."""
        return min(1.0, (len(self.body) + size_of(self.properties) + 400) / 200_000)


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
            async with asyncio.timeout(SEND_SECONDS):
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
            await self._sender.send_messages(wired if len(wired) > 1 else wired[0], timeout=SEND_SECONDS)
        except OperationTimeoutError:
            await self._drop(self._sender)
            raise
        self._figures.messages += len(messages)
        return [None] * len(messages)

    async def _drop(self, sender: ServiceBusSender) -> None:
        """Have the next message sent over a new connection: the client keeps one that swallows all."""
        self._sender = None
        with suppress(AzureError, TimeoutError):
            async with asyncio.timeout(1):
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
    """Return a property's value, as a text where it does not fit into 32 bits.

    The client encodes every whole number so, and fails with all of a batch on a larger one.
    """
    return str(value) if isinstance(value, int) and value not in range(-(2**31), 2**31) else value


def connect_bus(connection: Connection) -> Callable[[], ServiceBusClient]:
    """Check the connection, and return a maker of the one client. Raises `SettingsError`."""
    with connection_string_of("ServiceBusConnection"):
        _check(connection.connection_string)
    return cache(lambda: _client(connection))


def _check(connection_string: str | None) -> None:
    if not connection_string:
        return
    parts = dict(part.split("=", 1) for part in connection_string.strip().rstrip(";").split(";"))
    named = {name.lower(): value for name, value in parts.items()}
    endpoint = named.get("endpoint") or named.get("hostname", "")
    name, key, signature = (
        bool(named.get(f"sharedaccess{part}")) for part in ("keyname", "key", "signature")
    )
    if not urlsplit(endpoint).netloc or name is not key or key is signature or named.get("entitypath"):
        raise ValueError("it needs an endpoint, a key with its name or a signature, and no EntityPath")


def _client(connection: Connection) -> ServiceBusClient:
    from azure.servicebus.aio import ServiceBusClient  # noqa: PLC0415 - with the first message

    # One for all: without it each sender and receiver loads the certificates again, 60 ms of the event loop.
    trust = ssl.create_default_context()
    if connection.connection_string:
        return ServiceBusClient.from_connection_string(connection.connection_string, ssl_context=trust)
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

    credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
    return ServiceBusClient(connection.address or "", credential, ssl_context=trust)
