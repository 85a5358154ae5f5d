"""The connections to Azure services, read from the settings.

The names follow the convention of the Functions host: `NAME` is a connection string (local runs);
`NAME__tableServiceUri` or `NAME__fullyQualifiedNamespace` is an address reached by identity (Azure).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.utils import parse_connection_string
from pydantic import AliasGenerator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

if TYPE_CHECKING:
    from azure.servicebus.aio import ServiceBusClient


class SettingsError(Exception):
    """A setting is missing or wrong. The text is one line with its name and the fix."""


@contextmanager
def connection_string_of(setting: str) -> Iterator[None]:
    """Turn an SDK's `ValueError` into a `SettingsError` that names the setting, and not its secret text."""
    try:
        yield
    except ValueError:
        raise SettingsError(
            f"setting {setting} is wrong (not a resource's connection string): set it to the connection"
            " string that the portal shows"
        ) from None


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection to one Azure service: a connection string (secret), or an address reached by identity."""

    connection_string: str | None = field(repr=False)
    address: str | None
    client_id: str | None
    setting: str = field(default="StateStore", compare=False)


class Environment(BaseSettings):
    """Settings read from the environment by the fields' names in capitals. An empty one counts as not set."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="ignore",
        env_ignore_empty=True,
        alias_generator=AliasGenerator(validation_alias=str.upper),
    )


class Connections(Environment):
    """The settings of connections. The text below each field completes "set it to …"."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    state_store: str | None = Field(None, validation_alias="StateStore", repr=False)
    """the state store's connection string"""
    state_store_uri: str | None = Field(None, validation_alias="StateStore__tableServiceUri")
    """the table address of the state store's account, which is then reached by identity"""
    state_store_client_id: str | None = Field(None, validation_alias="StateStore__clientId")
    """the client id of the identity for the state store"""
    agent_store: str | None = Field(None, validation_alias="AgentStore", repr=False)
    """the connection string for the Agents' tables, by default the state store's"""
    agent_store_uri: str | None = Field(None, validation_alias="AgentStore__tableServiceUri")
    """the table address for the Agents' tables, which is then reached by identity"""
    agent_store_client_id: str | None = Field(None, validation_alias="AgentStore__clientId")
    """the client id of the identity for the Agents' tables"""
    service_bus: str | None = Field(None, validation_alias="ServiceBusConnection", repr=False)
    """the Service Bus connection string"""
    service_bus_namespace: str | None = Field(
        None, validation_alias="ServiceBusConnection__fullyQualifiedNamespace"
    )
    """the host name of the Service Bus namespace, which is then reached by identity"""
    service_bus_client_id: str | None = Field(None, validation_alias="ServiceBusConnection__clientId")
    """the client id of the identity for Service Bus"""
    event_hubs: str | None = Field(None, validation_alias="EventHubConnection", repr=False)
    """the Event Hubs connection string, if orders also come through an event hub"""
    event_hubs_namespace: str | None = Field(
        None, validation_alias="EventHubConnection__fullyQualifiedNamespace"
    )
    """the host name of the Event Hubs namespace, which is then reached by identity"""
    event_hubs_client_id: str | None = Field(None, validation_alias="EventHubConnection__clientId")
    """the client id of the identity for Event Hubs"""

    @property
    def state_store_connection(self) -> Connection:
        """Return the connection to the state store."""
        return Connection(self.state_store, self.state_store_uri, self.state_store_client_id)

    @property
    def agent_store_connection(self) -> Connection | None:
        """Return the connection to the Agents' tables, None if they are in the state store's account."""
        if self.agent_store is None and self.agent_store_uri is None:
            return None
        return Connection(
            self.agent_store, self.agent_store_uri, self.agent_store_client_id, setting="AgentStore"
        )

    @property
    def service_bus_connection(self) -> Connection:
        """Return the connection to Service Bus."""
        return Connection(self.service_bus, self.service_bus_namespace, self.service_bus_client_id)

    @property
    def event_hubs_connection(self) -> Connection | None:
        """Return the connection to Event Hubs, None if no orders come through one."""
        if self.event_hubs is None and self.event_hubs_namespace is None:
            return None
        return Connection(self.event_hubs, self.event_hubs_namespace, self.event_hubs_client_id)


def connect_bus(connection: Connection) -> Callable[[], ServiceBusClient]:
    """Check the connection, and return a function that opens the client once. Raises `SettingsError`."""
    text, address = connection.connection_string, connection.address or ""
    if text:
        with connection_string_of("ServiceBusConnection"):
            _check_bus(parse_connection_string(text))

    @cache
    def client() -> ServiceBusClient:
        from azure.servicebus.aio import ServiceBusClient  # noqa: PLC0415 - imported with the first message

        # Without a shared context, each sender and receiver blocks the event loop for 60 ms to load it.
        trust = ssl.create_default_context()
        if text:
            return ServiceBusClient.from_connection_string(text, ssl_context=trust)
        from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

        credential: Any = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
        return ServiceBusClient(address, credential, ssl_context=trust)

    return client


def _check_bus(named: Mapping[str, str]) -> None:
    """Check the parts of a connection string. Raises `ValueError`."""
    address = urlsplit(named.get("endpoint") or named.get("hostname", ""))
    parts = (f"sharedaccess{part}" for part in ("keyname", "key", "signature"))
    name, key, signature = (bool(named.get(part)) for part in parts)
    if not address.netloc or name is not key or key is signature or named.get("entitypath"):
        raise ValueError("it needs an endpoint, a key with its name or a signature, and no EntityPath")
