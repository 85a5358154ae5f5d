"""The client of Service Bus, made from the settings of its connection."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.utils import parse_connection_string

from functions.connections import Connection, connection_string_of

if TYPE_CHECKING:
    from azure.servicebus.aio import ServiceBusClient


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
