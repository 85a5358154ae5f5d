"""The client of Service Bus, by connection string or by identity."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from functions.connections import Connection, connection_string_of

if TYPE_CHECKING:
    from azure.servicebus.aio import ServiceBusClient


def connect_bus(connection: Connection) -> Callable[[], ServiceBusClient]:
    """Check the connection, and give what makes the one client: at its first use, since its package is large.

    Raises `SettingsError`.
    """
    with connection_string_of("ServiceBusConnection"):
        _check(connection.connection_string)
    return cache(lambda: _client(connection))


def _check(connection_string: str | None) -> None:
    """Check what the SDK checks, which is not loaded at a start. Raises `ValueError`."""
    if not connection_string:
        return
    parts = dict(part.split("=", 1) for part in connection_string.strip().rstrip(";").split(";"))
    named = {name.lower(): value for name, value in parts.items()}
    endpoint = named.get("endpoint") or named.get("hostname", "")
    name, key, signature = (
        bool(named.get(f"sharedaccess{part}")) for part in ("keyname", "key", "signature")
    )
    if not urlsplit(endpoint).netloc or name is not key or key is signature:
        raise ValueError("it needs an endpoint, and either a key with its name or a signature")


def _client(connection: Connection) -> ServiceBusClient:
    from azure.servicebus.aio import ServiceBusClient  # noqa: PLC0415 - with the first message

    # One for all: without it each sender and receiver loads the certificates again, 60 ms of the event loop.
    trust = ssl.create_default_context()
    if connection.connection_string:
        return ServiceBusClient.from_connection_string(connection.connection_string, ssl_context=trust)
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

    credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
    return ServiceBusClient(connection.address or "", credential, ssl_context=trust)
