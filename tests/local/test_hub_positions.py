"""The hub tells what it keeps; its readers' checkpoints are blobs of the Functions host."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from azure.core.exceptions import ResourceNotFoundError, ServiceRequestError
from azure.eventhub.exceptions import ConnectError

from functions.connections import Connection, SettingsError
from local.checkpoints import (
    HubPartition,
    HubReadError,
    HubReaders,
    checkpoint_folder,
    connect_checkpoints,
    connect_hub,
    main,
)

_KEY = "SharedAccessKeyName=R;SharedAccessKey=S2V5"
_LOCAL = f"Endpoint=sb://127.0.0.1:5672;{_KEY}"


class Services:
    """A hub of two partitions, and the container with checkpoints of more than one hub."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.blobs = {
            "bus.example.com/order-events/ingestion/checkpoint/0": {"sequencenumber": "41", "offset": "9"},
            "bus.example.com/order-events/ingestion/checkpoint/1": {"offset": "9"},
            "bus.example.com/order-events/ingestion/ownership/0": {"ownerid": "x"},
            "bus.example.com/order-events/other/checkpoint/0": {"sequencenumber": "7"},
        }

    async def get_partition_ids(self) -> list[str]:
        """Name the partitions."""
        self._fail_if_set()
        return ["0", "1"]

    async def get_partition_properties(self, partition: str) -> dict[str, int]:
        """Return the sequence numbers of a partition."""
        self._fail_if_set()
        return {"beginning_sequence_number": 5, "last_enqueued_sequence_number": 10 + int(partition)}

    async def list_blobs(self, name_starts_with: str, include: list[str]) -> AsyncIterator[object]:
        """List blobs with their metadata."""
        self._fail_if_set()
        assert include == ["metadata"]
        for name, metadata in self.blobs.items():
            if name.startswith(name_starts_with):
                yield SimpleNamespace(name=name, metadata=metadata)

    def _fail_if_set(self) -> None:
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def services() -> Services:
    """Make services that answer."""
    return Services()


@pytest.fixture
def positions(services: Services) -> HubReaders:
    """Return the reader of positions, with names in the spelling of the settings."""
    both = cast("Any", services)
    return HubReaders(both, both, checkpoint_folder("Bus.example.com", "Order-Events", "Ingestion"))


async def test_partitions_and_checkpoints_are_those_of_the_hub_and_its_consumer_group(
    services: Services, positions: HubReaders
) -> None:
    """Names are in lower case; a blob without a number is ignored. The host makes the container later."""
    assert await positions.partitions() == [HubPartition("0", 5, 10), HubPartition("1", 5, 11)]
    assert await positions.checkpoints() == {"0": 41}
    services.failure = ResourceNotFoundError("ContainerNotFound")
    assert await positions.checkpoints() == {}


async def test_faults_of_the_services_may_pass(services: Services, positions: HubReaders) -> None:
    """A later read may succeed."""
    for services.failure in (ServiceRequestError("no answer"), ConnectError("gone")):
        for read in (positions.partitions, positions.checkpoints):
            with pytest.raises(HubReadError):
                await read()


@pytest.mark.parametrize(("checkpoint", "waiting"), [(None, 10), (4, 10), (9, 5), (14, 0), (15, 10)])
def test_events_after_the_checkpoint_are_waiting(checkpoint: int | None, waiting: int) -> None:
    """A checkpoint beyond the end is of an earlier hub: all events are waiting."""
    assert HubPartition("0", 5, 14).waiting(checkpoint) == waiting


@pytest.mark.parametrize(
    ("connection", "hub", "namespace"),
    [
        (Connection(f"{_LOCAL};UseDevelopmentEmulator=true", None, None), "orders", "127.0.0.1"),
        (Connection(f"{_LOCAL};EntityPath=other", None, None), "other", "127.0.0.1"),
        (Connection(None, "orders.servicebus.windows.net", "id"), "orders", "orders.servicebus.windows.net"),
    ],
    ids=["local", "entity", "identity"],
)
async def test_hub_and_container_are_those_of_the_host(
    connection: Connection, hub: str, namespace: str
) -> None:
    """The namespace is without a port, and an `EntityPath` takes precedence over `EVENT_HUB_NAME`."""
    client, named = connect_hub(connection, "orders")
    async with client:
        assert (client.eventhub_name, named) == (hub, namespace)
    async with connect_checkpoints(Connection(None, "https://host.blob.core.windows.net", None)) as blobs:
        assert blobs.url == "https://host.blob.core.windows.net/azure-webjobs-eventhub"


def test_wrong_setting_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be a secret. The Functions host itself would not start with a wrong connection string."""
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    monkeypatch.setenv("ALERT_WEBHOOK_URL", "http://hooks.example.com/secret")
    assert (main([]), "secret" in (shown := capsys.readouterr().err)) == (2, False)
    assert shown.startswith("setting ALERT_WEBHOOK_URL is wrong")
    for text in ("rubbish", _KEY, "Endpoint=sb://127.0.0.1:5672"):
        with pytest.raises(SettingsError, match=r"^setting EventHubConnection is wrong") as hub:
            connect_hub(Connection(text, None, None), "orders")
        with pytest.raises(SettingsError, match=r"^setting AzureWebJobsStorage is wrong") as storage:
            connect_checkpoints(Connection(text, None, None, setting="AzureWebJobsStorage"))
        assert text not in f"{hub.value} {storage.value}"
