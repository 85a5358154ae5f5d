"""Service Bus output bindings: sends what a function set, one message for each binding."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusSender

from functions_local.app import Function, ServiceBusOutput
from functions_local.messaging.connections import Connections
from functions_local.worker.protos import TypedData


class _Sender:
    """One sender, used by one invocation at a time: the SDK's senders are not made for concurrent use."""

    def __init__(self, link: ServiceBusSender) -> None:
        self.link = link
        self._turn = asyncio.Lock()

    async def send(self, data: TypedData) -> None:
        async with self._turn:
            await self.link.send_messages(ServiceBusMessage(data.value))


class Outputs:
    """Keeps one sender for each queue that an output binding names: to open one takes half a second."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._senders: dict[tuple[str, str], _Sender] = {}

    def check(self, functions: Sequence[Function]) -> None:
        """Make the clients now, so that a missing setting ends the start (StartError), not an invocation."""
        for function in functions:
            for output in function.outputs:
                self._connections.client(output.connection, used_by=f"function {function.name}")

    async def send(self, function: Function, outputs: Mapping[str, TypedData]) -> None:
        """Send the values by binding name; raise when one could not be sent."""
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
