"""The queues that the tests share, and clients, senders and receivers for them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
)

from servicebus_local.broker.settings import QueueSettings
from servicebus_local.config import BrokerConfig
from servicebus_local.testing import connection_string

_SECOND = 1000
#: Seconds until the next message: the client ends a wait in which its process stood still, whatever has come.
PATIENCE = 30
#: Shorter times than a configuration file may have, so that tests need not wait long.
CONFIG = BrokerConfig(
    queues={
        "orders": QueueSettings(lock_ms=30 * _SECOND, max_delivery_count=3),
        # For tests with receivers of their own: an idle receiver of another test would take messages.
        "solo": QueueSettings(lock_ms=30 * _SECOND),
        "handover": QueueSettings(lock_ms=30 * _SECOND),
        # The client's renewers have ten seconds of this left when they renew.
        "short-lock": QueueSettings(lock_ms=14 * _SECOND, max_delivery_count=3),
        "expiring": QueueSettings(dead_letters_expired=True),
        "daily": QueueSettings(time_to_live_ms=24 * 3600 * _SECOND),
        "dropping": QueueSettings(time_to_live_ms=400),
        "unique": QueueSettings(duplicate_window_ms=3 * _SECOND),
        "remembering": QueueSettings(duplicate_window_ms=60 * _SECOND),
        "small": QueueSettings(max_bytes=1000),
        "Faulty": QueueSettings(lock_ms=30 * _SECOND),
        # A client learns with its next call that its link was detached: another test's, if they share it.
        "detached": QueueSettings(lock_ms=30 * _SECOND),
    },
)


def connect(port: int, retry_total: int = 0) -> ServiceBusClient:
    """Return a client; without retries a test sees the first answer."""
    return ServiceBusClient.from_connection_string(
        connection_string(port), retry_total=retry_total, retry_backoff_factor=0.1
    )


def take(receiver: ServiceBusReceiver, number: int = 1) -> list[ServiceBusReceivedMessage]:
    """Receive `number` messages: the client returns its messages after 0.2 s without another."""
    taken = list[ServiceBusReceivedMessage]()
    while len(taken) < number:
        more = receiver.receive_messages(number - len(taken), PATIENCE)
        assert more, f"{number - len(taken)} messages are missing"
        taken += more
    return taken


class Links:
    """Senders and receivers by queue, opened when first used."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._client = client
        self._senders: dict[str, ServiceBusSender] = {}
        self._receivers: dict[tuple[str, str | None], ServiceBusReceiver] = {}

    def sender(self, queue: str) -> ServiceBusSender:
        """Return the sender to a queue."""
        if queue not in self._senders:
            self._senders[queue] = self._client.get_queue_sender(queue).__enter__()
        return self._senders[queue]

    def receiver(self, queue: str, sub_queue: str | None = None) -> ServiceBusReceiver:
        """Return the receiver from a queue or its dead letters."""
        if (queue, sub_queue) not in self._receivers:
            receiver = self._client.get_queue_receiver(queue, sub_queue=sub_queue)
            self._receivers[queue, sub_queue] = receiver.__enter__()
        return self._receivers[queue, sub_queue]

    def dead_letters(self, queue: str) -> ServiceBusReceiver:
        """Return the receiver from a queue's dead letters."""
        return self.receiver(queue, "deadletter")

    def close(self) -> None:
        """Close all at the same time: the client takes up to a second for each."""
        links = [*self._senders.values(), *self._receivers.values()]
        with ThreadPoolExecutor(max_workers=len(links) or 1) as pool:
            list(pool.map(lambda link: link.close(), links))


@contextmanager
def open_links(port: int) -> Iterator[Links]:
    """Connect a client without retries, and close its links at the end of the block."""
    with connect(port) as client:
        links = Links(client)
        try:
            yield links
        finally:
            links.close()
