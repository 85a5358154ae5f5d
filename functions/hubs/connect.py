"""Clients of Event Hubs, and of the blobs with its readers' checkpoints: by connection string or identity."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from functions.connections import Connection, connection_string_of
from functions.pattern.errors import SettingsError

if TYPE_CHECKING:
    from azure.eventhub.aio import EventHubProducerClient
    from azure.storage.blob.aio import ContainerClient

#: Where the Functions host keeps the checkpoints of Event Hubs.
_CHECKPOINTS = "azure-webjobs-eventhub"

#: Retries of the SDK; whoever submits is told soon, and repeats it.
_RETRIES = 1


def connect_hub(connection: Connection, hub: str) -> Callable[[], EventHubProducerClient]:
    """Check the connection, and give what makes the one client at its first use. Raises `SettingsError`."""
    namespace_of(connection)
    named = _parts(connection).get("entitypath", hub)
    if named.lower() != hub.lower():  # the host goes by the connection string
        raise SettingsError(
            f"setting EventHubConnection names the hub {named}, and EVENT_HUB_NAME {hub}: make them the same"
        )
    return cache(lambda: _client(connection, hub))


def connect_checkpoints(connection: Connection) -> Callable[[], ContainerClient]:
    """Give what makes the client of the checkpoints at its first use."""
    return cache(lambda: _container(connection))


def namespace_of(connection: Connection) -> str:
    """Give the host name of the namespace, without a port, as the host does. Raises `SettingsError`."""
    if connection.connection_string is None:
        return (connection.address or "").lower()
    with connection_string_of("EventHubConnection"):
        named = _parts(connection)
        host = urlsplit(named.get("endpoint", "")).hostname
        if host is None or "sharedaccesskey" not in named:
            raise ValueError("it needs an endpoint and a key")
    return host


def _parts(connection: Connection) -> dict[str, str]:
    """Read a connection string. Raises `ValueError`."""
    parts = (connection.connection_string or "").strip().rstrip(";").split(";")
    return {name.lower(): value for name, value in (part.split("=", 1) for part in parts if part)}


def _client(connection: Connection, hub: str) -> EventHubProducerClient:
    from azure.eventhub.aio import EventHubProducerClient  # noqa: PLC0415 - with the first event

    # One for all: each partition that is asked would load the certificates again.
    options: dict[str, Any] = {"retry_total": _RETRIES, "ssl_context": ssl.create_default_context()}
    if connection.connection_string:
        return EventHubProducerClient.from_connection_string(
            connection.connection_string, eventhub_name=hub, **options
        )
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

    credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
    return EventHubProducerClient(connection.address or "", hub, credential, **options)


def _container(connection: Connection) -> ContainerClient:
    from azure.storage.blob.aio import ContainerClient  # noqa: PLC0415 - with the first look

    if connection.connection_string:
        try:
            return ContainerClient.from_connection_string(connection.connection_string, _CHECKPOINTS)
        except ValueError:
            raise SettingsError("setting AzureWebJobsStorage is wrong (not a connection string)") from None
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

    credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
    return ContainerClient(connection.address or "", _CHECKPOINTS, credential)
