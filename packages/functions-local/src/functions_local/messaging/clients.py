"""Service Bus clients, one for each connection that bindings name, and the senders of output bindings."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

from functions_local.app import Function, ServiceBusOutput
from functions_local.connections import ConnectionSettings, malformed, missing
from functions_local.protos import TypedData


class Connections:
    """Keeps the clients while the host runs. A client connects with its first sender or receiver."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._clients: dict[str, ServiceBusClient] = {}

    def client(self, connection: str, *, used_by: str) -> ServiceBusClient:
        """Return the client of a connection.

        The setting is `connection` or `AzureWebJobs{connection}`, a connection string; or, with
        `__fullyQualifiedNamespace` appended, the host name of a namespace in Azure, which is opened with the
        developer's own Azure login. Raises StartError naming the setting when it is missing or malformed.
        """
        if connection not in self._clients:
            self._clients[connection] = self._make(connection, used_by)
        return self._clients[connection]

    async def close(self) -> None:
        """Close every client."""
        for client in self._clients.values():
            await client.close()

    def _make(self, connection: str, used_by: str) -> ServiceBusClient:
        # retry_total=0: the triggers reconnect automatically, without limit, and log each outage once.
        # One context for all: otherwise each link loads the certificates, which blocks the loop for 60 ms.
        options: dict[str, Any] = {"retry_total": 0, "ssl_context": ssl.create_default_context()}
        if text := self._settings.value(connection):
            try:
                return ServiceBusClient.from_connection_string(text, **options)
            except ValueError as error:
                raise malformed(connection, used_by, error) from error
        if namespace := self._settings.value(connection, "__fullyQualifiedNamespace"):
            return ServiceBusClient(namespace, self._settings.login(), **options)
        raise missing(connection, used_by)


class _Sender:
    """One sender, used by one invocation at a time: the SDK's senders do not support concurrent use."""

    def __init__(self, link: ServiceBusSender) -> None:
        self.link = link
        self._in_use = asyncio.Lock()

    async def send(self, data: TypedData) -> None:
        async with self._in_use:
            await self.link.send_messages(_messages(data))


def _messages(data: TypedData) -> list[ServiceBusMessage]:
    """Make the messages of one value: the text of a JSON array is a message for each element, as in Azure."""
    body = data.value if isinstance(data.value, bytes) else str(data.value)
    elements = _elements(body) if isinstance(body, str) else None
    return [ServiceBusMessage(each) for each in ([body] if elements is None else elements)]


def _elements(text: str) -> list[str] | None:
    try:
        found = json.loads(text) if text.lstrip().startswith("[") else None
    except ValueError:
        return None
    if not isinstance(found, list):
        return None
    return [each if isinstance(each, str) else json.dumps(each) for each in found]


class Outputs:
    """Sends the values of output bindings, all messages of a binding together.

    Keeps one sender for each queue, because opening one takes half a second.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._senders: dict[tuple[str, str], _Sender] = {}

    def check(self, functions: Sequence[Function]) -> None:
        """Create the clients, so that a missing setting prevents the start (StartError)."""
        for function in functions:
            for output in function.outputs:
                self._connections.client(output.connection, used_by=f"function {function.name}")

    async def send(self, function: Function, outputs: Mapping[str, TypedData]) -> None:
        """Send the values by binding name. Raises the first error."""
        bindings = {output.name: output for output in function.outputs}
        for name, data in outputs.items():
            await self._sender(bindings[name], function.name).send(data)

    async def close(self) -> None:
        """Close every sender."""
        for sender in self._senders.values():
            await sender.link.close()

    def _sender(self, output: ServiceBusOutput, function: str) -> _Sender:
        key = (output.connection, output.queue)
        if key not in self._senders:
            client = self._connections.client(output.connection, used_by=f"function {function}")
            self._senders[key] = _Sender(client.get_queue_sender(output.queue))
        return self._senders[key]
