"""The clients of Service Bus and Event Hubs, made from the settings of their connections."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.utils import parse_connection_string

from functions.connections import Connection, connection_string_of

if TYPE_CHECKING:
    from azure.eventhub.aio import EventHubProducerClient
    from azure.servicebus.aio import ServiceBusClient


class HubNameError(ValueError):
    """The connection string names another event hub. The text is one line with the settings and the fix."""


def connect_bus(connection: Connection) -> Callable[[], ServiceBusClient]:
    """Check the connection, and return a function that opens the client once. Raises `SettingsError`."""
    with connection_string_of("ServiceBusConnection"):
        _check_bus(connection.connection_string)
    return cache(lambda: _bus_client(connection))


def _check_bus(connection_string: str | None) -> None:
    if not connection_string:
        return
    named = parse_connection_string(connection_string)
    endpoint = named.get("endpoint") or named.get("hostname", "")
    name, key, signature = (
        bool(named.get(f"sharedaccess{each}")) for each in ("keyname", "key", "signature")
    )
    if not urlsplit(endpoint).netloc or name is not key or key is signature or named.get("entitypath"):
        raise ValueError("it needs an endpoint, a key with its name or a signature, and no EntityPath")


def _bus_client(connection: Connection) -> ServiceBusClient:
    from azure.servicebus.aio import ServiceBusClient  # noqa: PLC0415 - with the first message

    # Without it, each sender and receiver loads the certificates again: 60 ms of the event loop.
    trust = ssl.create_default_context()
    if connection.connection_string:
        return ServiceBusClient.from_connection_string(connection.connection_string, ssl_context=trust)
    return ServiceBusClient(connection.address or "", _credential(connection), ssl_context=trust)


def _credential(connection: Connection) -> Any:
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

    return DefaultAzureCredential(managed_identity_client_id=connection.client_id)


def connect_hub(connection: Connection, hub: str) -> Callable[[], EventHubProducerClient]:
    """Check the connection, and return a function that opens the client once.

    Raises `SettingsError` and `HubNameError`.
    """
    namespace_of(connection)
    named = hub
    if connection.connection_string is not None:
        named = parse_connection_string(connection.connection_string).get("entitypath", hub)
    if named.lower() != hub.lower():  # the host reads from the hub of the connection string
        raise HubNameError(
            f"setting EventHubConnection names the hub {named}, and EVENT_HUB_NAME {hub}: make them the same"
        )
    return cache(lambda: _hub_client(connection, hub))


def namespace_of(connection: Connection) -> str:
    """Return the host name of an event hub's namespace in lower case. Raises `SettingsError`."""
    if connection.connection_string is None:
        return (connection.address or "").lower()
    with connection_string_of("EventHubConnection"):
        named = parse_connection_string(connection.connection_string)
        host = urlsplit(named.get("endpoint", "")).hostname
        if host is None or "sharedaccesskey" not in named:
            raise ValueError("it needs an endpoint and a key")
    return host


def _hub_client(connection: Connection, hub: str) -> EventHubProducerClient:
    from azure.eventhub.aio import EventHubProducerClient  # noqa: PLC0415 - with the first event

    # One context for all partitions: each would load the certificates again. The caller repeats a failed
    # submission, so the client retries once.
    options: dict[str, Any] = {"retry_total": 1, "ssl_context": ssl.create_default_context()}
    if connection.connection_string:
        return EventHubProducerClient.from_connection_string(
            connection.connection_string, eventhub_name=hub, **options
        )
    return EventHubProducerClient(connection.address or "", hub, _credential(connection), **options)
