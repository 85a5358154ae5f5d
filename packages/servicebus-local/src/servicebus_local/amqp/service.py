"""What all connections of a broker share, and what can be done to all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servicebus_local.broker.namespace import Namespace

if TYPE_CHECKING:
    from .connection import Connection


_FORCED = "The link was detached by a fault that was asked for."


class Service:
    """The queues and the clients' connections to them."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.connections: set[Connection] = set()

    def drop_connections(self) -> int:
        """Cut all connections without a word, and return how many there were."""
        connections = list(self.connections)
        for connection in connections:
            connection.drop()
        return len(connections)

    def detach_links(self, queue_key: str | None = None) -> int:
        """Detach the links of one queue or of all, as the service does at times, and count them."""
        links = [
            link
            for connection in self.connections
            for channel in connection.channels
            for link in channel.links
            if link.queue is not None and queue_key in (None, link.queue.queue_key)
        ]
        for link in links:
            link.channel.detach(link, "amqp:link:detach-forced", _FORCED)
        return len(links)

    def shut_down(self) -> None:
        """Tell all clients that the broker goes away."""
        for connection in list(self.connections):
            connection.shut_down("amqp:connection:forced", "The local broker is shutting down.")
