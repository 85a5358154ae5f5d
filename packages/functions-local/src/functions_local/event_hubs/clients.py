"""The client of the hub that a trigger names."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

from azure.eventhub import parse_connection_string
from azure.eventhub.aio import EventHubConsumerClient

from functions_local.app import EventHubTrigger
from functions_local.connections import ConnectionSettings, malformed, missing


@dataclass(frozen=True, slots=True)
class HubClient:
    """A client, and its names for blobs and for trigger metadata."""

    client: EventHubConsumerClient
    #: Host name, without a port.
    namespace: str
    hub: str


def hub_client(settings: ConnectionSettings, trigger: EventHubTrigger, used_by: str) -> HubClient:
    """Return the client of a trigger; it connects later.

    The setting is a connection string, whose `EntityPath` overrides the trigger's hub, as in Azure; or, with
    `__fullyQualifiedNamespace` appended, the host name of a namespace in Azure. Raises StartError.
    """
    # retry_total=0: the readers reconnect automatically. One context: its creation takes 60 ms.
    options: dict[str, Any] = {"retry_total": 0, "ssl_context": ssl.create_default_context()}
    if text := settings.value(trigger.connection):
        try:
            parsed = parse_connection_string(text)
            hub = parsed.eventhub_name or trigger.hub
            client = EventHubConsumerClient.from_connection_string(
                text, trigger.consumer_group, eventhub_name=hub, **options
            )
        except ValueError as error:
            raise malformed(trigger.connection, used_by, error) from error
        return HubClient(client, parsed.fully_qualified_namespace.partition(":")[0], hub)
    if namespace := settings.value(trigger.connection, "__fullyQualifiedNamespace"):
        client = EventHubConsumerClient(
            namespace, trigger.hub, trigger.consumer_group, settings.login(), **options
        )
        return HubClient(client, namespace, trigger.hub)
    raise missing(trigger.connection, used_by)
