"""One broker and one set of open links for each test module: opening a link takes half a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient
from hypothesis import HealthCheck, settings

from servicebus_local.testing import RunningBroker, running_broker
from tests.clients import CONFIG, Links, connect

# No limits of time: a busy machine must not fail a test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    """Run a broker for the module."""
    with running_broker(CONFIG) as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: RunningBroker) -> Iterator[ServiceBusClient]:
    """Connect a client for the module."""
    with connect(broker.endpoints.port) as client:
        yield client


@pytest.fixture(scope="module")
def links(client: ServiceBusClient) -> Iterator[Links]:
    """Keep the module's senders and receivers open."""
    opened = Links(client)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _empty_queues(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete all messages and faults after each test of the module."""
    yield
    if "broker" in request.fixturenames:
        broker: RunningBroker = request.getfixturevalue("broker")
        broker.admin("DELETE", "/faults")
        for figures in broker.admin("GET", "/queues")[1]:
            broker.admin("POST", f"/queues/{figures['name']}/purge")
