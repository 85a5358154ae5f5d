"""The clients of a broker, and operations on all their connections."""

from __future__ import annotations

from servicebus_local.amqp.connection import ClientConnection
from servicebus_local.amqp.links import Node
from servicebus_local.namespace import Namespace

_FORCED = "The link was detached because a fault asked for it."


class Service:
    """The queues and the clients' connections to them."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.connections: set[ClientConnection] = set()

    def accept(self) -> ClientConnection:
        """Return the protocol for a new client's connection."""
        return ClientConnection(self.namespace, self.connections)

    def drop_connections(self) -> int:
        """Cut all connections without notice, and return how many there were."""
        connections = list(self.connections)
        for connection in connections:
            connection.drop()
        return len(connections)

    def detach_links(self, node: Node | None = None) -> int:
        """Detach the links of one queue or hub, or all links, and return their number."""
        links = [
            link
            for connection in self.connections
            for channel in connection.channels
            for link in channel.links
            if link.node is not None and node in (None, link.node)
        ]
        for link in links:
            link.channel.detach(link, "amqp:link:detach-forced", _FORCED)
        return len(links)

    def shut_down(self) -> None:
        """Notify all clients that the broker shuts down, and close their connections."""
        for connection in list(self.connections):
            connection.shut_down("amqp:connection:forced", "The local broker is shutting down.")
