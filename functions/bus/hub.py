"""Sends orders to the event hub; orders that wait at the same moment share a batch."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError

from functions.bus.sender import SEND_SECONDS
from functions.connections import Connection, connection_string_of
from functions.pattern.coalescer import Coalescer
from functions.pattern.errors import SettingsError, TransientError
from functions.pattern.messages import SubmissionMessage
from functions.pattern.request_figures import BusFigures
from functions.telemetry.spans import TRACEPARENT, current_traceparent

if TYPE_CHECKING:
    from azure.eventhub.aio import EventHubProducerClient


def connect_hub(connection: Connection, hub: str) -> Callable[[], EventHubProducerClient]:
    """Check the connection, and return a maker of the one client. Raises `SettingsError`."""
    namespace_of(connection)
    named = _parts(connection).get("entitypath", hub)
    if named.lower() != hub.lower():  # the host uses the name in the connection string
        raise SettingsError(
            f"setting EventHubConnection names the hub {named}, and EVENT_HUB_NAME {hub}: make them the same"
        )
    return cache(lambda: _client(connection, hub))


def namespace_of(connection: Connection) -> str:
    """Return the host name of the namespace, without a port, as the host does. Raises `SettingsError`."""
    if connection.connection_string is None:
        return (connection.address or "").lower()
    with connection_string_of("EventHubConnection"):
        named = _parts(connection)
        host = urlsplit(named.get("endpoint", "")).hostname
        if host is None or "sharedaccesskey" not in named:
            raise ValueError("it needs an endpoint and a key")
    return host


def _parts(connection: Connection) -> dict[str, str]:
    parts = (connection.connection_string or "").strip().rstrip(";").split(";")
    return {name.lower(): value for name, value in (part.split("=", 1) for part in parts if part)}


def _client(connection: Connection, hub: str) -> EventHubProducerClient:
    from azure.eventhub.aio import EventHubProducerClient  # noqa: PLC0415 - with the first event

    # One context for all partitions: each would load the certificates again. The caller repeats a failed
    # submission, so the SDK retries once.
    options: dict[str, Any] = {"retry_total": 1, "ssl_context": ssl.create_default_context()}
    if connection.connection_string:
        return EventHubProducerClient.from_connection_string(
            connection.connection_string, eventhub_name=hub, **options
        )
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

    credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
    return EventHubProducerClient(connection.address or "", hub, credential, **options)


@dataclass(frozen=True, slots=True)
class _Event:
    body: bytes
    traceparent: str | None

    @property
    def key(self) -> int:
        """Any two events can share a batch."""
        return id(self)

    @property
    def share(self) -> float:
        """Return the part of a batch that this event takes.

        A hub of the Standard tier accepts 1 MiB at once. A batch goes to one partition, so a batch of many
        small events would leave the other partitions idle: at most 128 share one.
        """
        return min(1.0, max(1 / 128, (len(self.body) + 400) / 900_000))


class HubSubmissions:
    """Sends each order as an event without a key; the hub drops no duplicates, the state store finds them."""

    def __init__(self, client: Callable[[], EventHubProducerClient], figures: BusFigures) -> None:
        self._client = client
        self._figures = figures
        self._coalescer = Coalescer[_Event, None](self._send)

    async def submit(self, message: SubmissionMessage) -> None:
        """Submit an order; the hub may have it even if this raises `TransientError`."""
        await self._submit(message, current_traceparent())

    async def submit_all(
        self, messages: Sequence[SubmissionMessage], traces: Sequence[str | None] = ()
    ) -> Sequence[BaseException | None]:
        """Submit orders, and return the error of each, or None."""
        traced = traces or [None] * len(messages)
        return await asyncio.gather(*map(self._submit, messages, traced), return_exceptions=True)

    async def _submit(self, message: SubmissionMessage, traceparent: str | None) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._coalescer.submit(_Event(message.written, traceparent))
        except (AzureError, TimeoutError) as error:
            raise TransientError(f"Event Hubs: {type(error).__name__}") from error

    async def _send(self, events: Sequence[_Event]) -> list[None]:
        from azure.eventhub import EventData  # noqa: PLC0415 - with the first event
        from azure.eventhub.amqp import AmqpAnnotatedMessage  # noqa: PLC0415 - as above
        from azure.eventhub.exceptions import EventHubError  # noqa: PLC0415 - as above

        batch: list[EventData | AmqpAnnotatedMessage] = []
        for each in events:
            event = EventData(each.body)
            event.content_type = "application/json"
            if each.traceparent is not None:
                event.properties = {TRACEPARENT: each.traceparent}
            batch.append(event)
        try:
            await self._client().send_batch(batch, timeout=SEND_SECONDS)
        except EventHubError as error:
            raise TransientError(f"Event Hubs: {type(error).__name__}") from error
        self._figures.messages += len(events)
        return [None] * len(events)
