"""The fixtures of the client's live tests, for the local broker: each test has a hub of its own."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from azure.core.credentials import AccessToken
from azure.eventhub import EventHubProducerClient, TransportType
from azure.eventhub._configuration import Configuration
from azure.eventhub._pyamqp import ReceiveClient
from azure.eventhub._pyamqp.authentication import SASTokenAuth
from azure.eventhub._pyamqp.client import AMQPClient

from servicebus_local.config import BrokerConfig
from servicebus_local.hubs.settings import HubSettings
from servicebus_local.testing import running_broker

sys.path.insert(0, str(Path(__file__).parent))

_PARTITIONS = ("0", "1")
_PLAIN: dict[str, Any] = {"use_tls": False}
_numbers = itertools.count()


class _Credential:
    """Any token will do."""

    def get_token(self, *_: object, **__: object) -> AccessToken:
        """Return one for an hour."""
        return AccessToken("local", int(time.time()) + 3600)


class _AsyncCredential:
    async def get_token(self, *_: object, **__: object) -> AccessToken:
        return _Credential().get_token()

    async def close(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def _credential(*, is_async: bool = False, **_: object) -> Any:
    return _AsyncCredential() if is_async else _Credential()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the options of the client's own tests."""
    parser.addoption("--sleep", default="False")


def pytest_configure(config: pytest.Config) -> None:
    """Know the markers of the client's own tests."""
    config.addinivalue_line("markers", "liveTest: against a service")
    config.addinivalue_line("markers", "no_amqpproxy: not through a proxy")
    # Some of the tests open a client without `client_args`, or pass them by a wrong name.
    for kind in (Configuration, AMQPClient):
        kind.__init__ = _plain(kind.__init__)  # type: ignore[method-assign]


def _plain(made: Callable[..., None]) -> Callable[..., None]:
    """Make a client connect without TLS by default."""

    @wraps(made)
    def make(*arguments: Any, **options: Any) -> None:
        made(*arguments, **_PLAIN | options)

    return make


@pytest.fixture(scope="session")
def _port() -> Iterator[int]:
    hubs = {f"live-{number}": HubSettings(2) for number in range(400)}
    with running_broker(BrokerConfig({}, hubs=hubs)) as broker:
        yield broker.endpoints.port


@pytest.fixture
def live_eventhub(_port: int) -> dict[str, str]:
    """Return a hub that no other test has used."""
    host, hub = f"127.0.0.1:{_port}", f"live-{next(_numbers)}"
    access = "SharedAccessKeyName=local;SharedAccessKey=local;UseDevelopmentEmulator=true"
    return {
        "hostname": host,
        "key_name": "local",
        "access_key": "local",
        "namespace": host,
        "resource_group": "local",
        "event_hub": hub,
        "consumer_group": "$Default",
        "partition": "0",
        "connection_str": f"Endpoint=sb://{host};{access};EntityPath={hub}",
    }


@pytest.fixture
def connection_str(live_eventhub: dict[str, str]) -> str:
    """Return the hub's connection string."""
    return live_eventhub["connection_str"]


@pytest.fixture
def invalid_hostname(connection_str: str) -> str:
    """Return a connection string of a host that is not there."""
    return connection_str.replace("127.0.0.1", "invalid.invalid")


@pytest.fixture
def auth_credentials(live_eventhub: dict[str, str]) -> tuple[str, str, Callable[..., Any]]:
    """Return host, hub and what makes credentials."""
    return live_eventhub["hostname"], live_eventhub["event_hub"], _credential


@pytest.fixture
def auth_credentials_async(live_eventhub: dict[str, str]) -> tuple[str, str, Callable[..., Any]]:
    """Return host, hub and what makes asynchronous credentials."""
    return live_eventhub["hostname"], live_eventhub["event_hub"], partial(_credential, is_async=True)


new_receiver: Any = ReceiveClient  # it has no types


def _receivers(hub: dict[str, str]) -> Iterator[list[Any]]:
    opened = []
    for partition in _PARTITIONS:
        uri = f"sb://{hub['hostname']}/{hub['event_hub']}"
        source = (
            f"amqps://{hub['hostname']}/{hub['event_hub']}/ConsumerGroups/$Default/Partitions/{partition}"
        )
        auth = SASTokenAuth(uri, uri, hub["key_name"], hub["access_key"])
        receiver = new_receiver(hub["hostname"], source, auth=auth, timeout=0, link_credit=500, **_PLAIN)
        receiver.open()
        opened.append(receiver)
    yield opened
    for receiver in opened:
        receiver.close()


@pytest.fixture
def auth_credential_receivers(live_eventhub: dict[str, str]) -> Iterator[Any]:
    """Return host, hub, credential and a receiver of each partition."""
    for receivers in _receivers(live_eventhub):
        yield live_eventhub["hostname"], live_eventhub["event_hub"], _credential, receivers


@pytest.fixture
def auth_credential_receivers_async(live_eventhub: dict[str, str]) -> Iterator[Any]:
    """Return the same with asynchronous credentials."""
    for receivers in _receivers(live_eventhub):
        credential = partial(_credential, is_async=True)
        yield live_eventhub["hostname"], live_eventhub["event_hub"], credential, receivers


def _senders(hub: dict[str, str]) -> Iterator[list[Any]]:
    client: Any = EventHubProducerClient(hub["hostname"], hub["event_hub"], _credential(), **_PLAIN)
    with client:
        senders = [client._create_producer(partition_id=partition) for partition in _PARTITIONS]
        yield senders
        for sender in senders:
            sender.close()


@pytest.fixture
def auth_credential_senders(live_eventhub: dict[str, str]) -> Iterator[Any]:
    """Return host, hub, credential and a sender to each partition."""
    for senders in _senders(live_eventhub):
        yield live_eventhub["hostname"], live_eventhub["event_hub"], _credential, senders


@pytest.fixture
def auth_credential_senders_async(live_eventhub: dict[str, str]) -> Iterator[Any]:
    """Return the same with asynchronous credentials."""
    for senders in _senders(live_eventhub):
        credential = partial(_credential, is_async=True)
        yield live_eventhub["hostname"], live_eventhub["event_hub"], credential, senders


@pytest.fixture
def client_args() -> dict[str, Any]:
    """Return what each client needs to speak to the broker."""
    return dict(_PLAIN)


@pytest.fixture(scope="session")
def uamqp_transport() -> bool:
    """Only the client's own transport."""
    return False


@pytest.fixture(scope="session")
def timeout_factor() -> int:
    """In seconds."""
    return 1


@pytest.fixture(scope="session")
def socket_transport() -> TransportType:
    """No WebSockets."""
    return TransportType.Amqp


@pytest.fixture
def sleep(request: pytest.FixtureRequest) -> bool:
    """Whether tests wait for minutes until the service ends an idle link."""
    return str(request.config.getoption("--sleep")) == "True"


@pytest.fixture(scope="session")
def get_credential() -> Callable[..., Any]:
    """Return what makes credentials."""
    return _credential


@pytest.fixture(scope="session")
def get_credential_async() -> Callable[..., Any]:
    """Return what makes asynchronous credentials."""
    return partial(_credential, is_async=True)


@pytest.fixture
def checkpoint_store() -> SimpleNamespace:
    """Skip: the stores are packages of their own."""
    pytest.skip("needs azure-eventhub-checkpointstoreblob")


@pytest.fixture
def checkpoint_store_aio() -> SimpleNamespace:
    """Skip, for the same reason."""
    pytest.skip("needs azure-eventhub-checkpointstoreblob-aio")


@pytest.fixture
def resource_mgmt_client() -> SimpleNamespace:
    """Skip: hubs are made by the broker's configuration."""
    pytest.skip("needs azure-mgmt-eventhub")
