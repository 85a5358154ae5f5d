"""One broker and one set of open links for each test module: opening a link takes half a second."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from .broker_thread import RunningBroker, running_broker


class Links:
    """Senders and receivers by queue, opened when first asked for."""

    def __init__(self, client: ServiceBusClient) -> None:
        self._client = client
        self._senders: dict[str, ServiceBusSender] = {}
        self._receivers: dict[tuple[str, str | None], ServiceBusReceiver] = {}

    def sender(self, queue: str) -> ServiceBusSender:
        """Return the module's sender to a queue."""
        if queue not in self._senders:
            self._senders[queue] = self._client.get_queue_sender(queue).__enter__()
        return self._senders[queue]

    def receiver(self, queue: str, sub_queue: str | None = None) -> ServiceBusReceiver:
        """Return the module's receiver from a queue or its dead letters."""
        if (queue, sub_queue) not in self._receivers:
            receiver = self._client.get_queue_receiver(queue, sub_queue=sub_queue)
            self._receivers[queue, sub_queue] = receiver.__enter__()
        return self._receivers[queue, sub_queue]

    def dead_letters(self, queue: str) -> ServiceBusReceiver:
        """Return the module's receiver from a queue's dead letters."""
        return self.receiver(queue, "deadletter")

    def close(self) -> None:
        """Close all at once: the client takes up to a second for each."""
        links = [*self._senders.values(), *self._receivers.values()]
        with ThreadPoolExecutor(max_workers=len(links) or 1) as pool:
            list(pool.map(lambda link: link.close(), links))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Run a broker for the module."""
    with running_broker(tmp_path_factory.mktemp("servicebus")) as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: RunningBroker) -> Iterator[ServiceBusClient]:
    """Connect a client for the module."""
    with broker.client() as client:
        yield client


@pytest.fixture(scope="module")
def links(client: ServiceBusClient) -> Iterator[Links]:
    """Keep the module's senders and receivers."""
    opened = Links(client)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _empty_queues(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave nothing for the next test of the module."""
    yield
    if "broker" in request.fixturenames:
        broker: RunningBroker = request.getfixturevalue("broker")
        broker.admin("DELETE", "/faults")
        for figures in broker.admin("GET", "/queues")[1]:
            broker.admin("POST", f"/queues/{figures['name']}/purge")
