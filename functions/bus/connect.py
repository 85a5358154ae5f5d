"""The client of Service Bus, by connection string or by identity."""

from __future__ import annotations

from azure.identity.aio import DefaultAzureCredential
from azure.servicebus.aio import ServiceBusClient

from functions.settings import Connection, connection_string_of


def connect(connection: Connection) -> ServiceBusClient:
    """Make the client; it connects when the first message is sent."""
    if connection.connection_string:
        with connection_string_of("ServiceBusConnection"):
            return ServiceBusClient.from_connection_string(connection.connection_string)
    credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
    return ServiceBusClient(connection.address or "", credential)
