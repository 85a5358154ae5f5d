"""The client of Service Bus, made from the settings of its connection."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.utils import parse_connection_string

from functions.connections import Connection, connection_string_of

if TYPE_CHECKING:
    from azure.servicebus.aio import ServiceBusClient


def connect_bus(connection: Connection) -> Callable[[], ServiceBusClient]:
    """Check the connection, and return a function that opens the client once. Raises `SettingsError`."""
    text, address = connection.connection_string, connection.address or ""
    if text:
        with connection_string_of("ServiceBusConnection"):
            _check(parse_connection_string(text))

    @cache
    def client() -> ServiceBusClient:
        from azure.servicebus.aio import ServiceBusClient  # noqa: PLC0415 - with the first message

        # Without it, each sender and receiver loads the certificates again: 60 ms of the event loop.
        trust = ssl.create_default_context()
        if text:
            return ServiceBusClient.from_connection_string(text, ssl_context=trust)
        from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

        credential: Any = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
        return ServiceBusClient(address, credential, ssl_context=trust)

    return client


def _check(named: Mapping[str, str]) -> None:
    """Check the parts of a connection string. Raises `ValueError`."""
    address = urlsplit(named.get("endpoint") or named.get("hostname", ""))
    parts = (f"sharedaccess{part}" for part in ("keyname", "key", "signature"))
    name, key, signature = (bool(named.get(part)) for part in parts)
    if not address.netloc or name is not key or key is signature or named.get("entitypath"):
        raise ValueError("it needs an endpoint, a key with its name or a signature, and no EntityPath")
