"""How far an event hub's readers are: the hub says what it keeps, and the host's blobs what was taken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.eventhub import parse_connection_string
from azure.eventhub.aio import EventHubProducerClient
from azure.eventhub.exceptions import EventHubError
from azure.identity.aio import DefaultAzureCredential
from azure.storage.blob.aio import ContainerClient

from functions.connections import Connection, connection_string_of

#: Partitions that are read at the same time: each opens a connection, and the service takes 50 calls/s.
_AT_ONCE = 8

#: The blob metadata with the number of the last event that was taken.
SEQUENCE_NUMBER = "sequencenumber"


class HubReadError(Exception):
    """Event Hubs or Blob Storage failed. The text is one line; a later read may succeed."""


@dataclass(frozen=True, slots=True)
class HubPartition:
    """A partition keeps the events from sequence number `begin` to `last` (-1: there never was one)."""

    id: str
    begin: int
    last: int

    def waiting(self, checkpoint: int | None) -> int:
        """Count the events after a checkpoint; of a hub that was created again, all are waiting."""
        is_known = checkpoint is not None and checkpoint <= self.last
        following = checkpoint + 1 if checkpoint is not None and is_known else self.begin
        return max(0, self.last - max(following, self.begin) + 1)


def checkpoint_folder(namespace: str, hub: str, consumer_group: str) -> str:
    """Return the name prefix of the host's checkpoint blobs of one hub and consumer group."""
    return f"{namespace}/{hub}/{consumer_group}/checkpoint/".lower()


def connect_hub(connection: Connection, name: str) -> tuple[EventHubProducerClient, str]:
    """Return the client of a hub, and the host name of its namespace. Raises `SettingsError`.

    An `EntityPath` in the connection string takes precedence over `name`, as in the Functions host.
    """
    if not connection.connection_string:
        address = connection.address or ""
        return EventHubProducerClient(address, name, _credential(connection)), address
    with connection_string_of("EventHubConnection"):
        parsed = parse_connection_string(connection.connection_string)
        client = EventHubProducerClient.from_connection_string(
            connection.connection_string, eventhub_name=parsed.eventhub_name or name
        )
    return client, parsed.fully_qualified_namespace.partition(":")[0]


def connect_checkpoints(connection: Connection) -> ContainerClient:
    """Return the client of the container with the checkpoints. Raises `SettingsError`."""
    name = "azure-webjobs-eventhub"
    if not connection.connection_string:
        return ContainerClient(connection.address or "", name, _credential(connection))
    with connection_string_of(connection.setting):
        return ContainerClient.from_connection_string(connection.connection_string, name)


def _credential(connection: Connection) -> DefaultAzureCredential:
    return DefaultAzureCredential(managed_identity_client_id=connection.client_id)


class BlobPositions:
    """Reads the positions of one hub and consumer group. Its methods raise `HubReadError`."""

    def __init__(self, hub: EventHubProducerClient, blobs: ContainerClient, folder: str) -> None:
        self._hub, self._blobs, self._folder = hub, blobs, folder

    async def partitions(self) -> Sequence[HubPartition]:
        """Read each partition's first and last number from the hub."""
        limit = asyncio.Semaphore(_AT_ONCE)
        with faults("Event Hubs"):
            ids = await self._hub.get_partition_ids()
            return await asyncio.gather(*(self._partition(each, limit) for each in ids))

    async def checkpoints(self) -> Mapping[str, int]:
        """Read all checkpoints in one listing."""
        found: dict[str, int] = {}
        with faults("Blob Storage"):
            try:
                async for blob in self._blobs.list_blobs(self._folder, include=["metadata"]):
                    number = _number(blob.metadata)
                    if number is not None:
                        found[blob.name.removeprefix(self._folder)] = number
            except ResourceNotFoundError:
                return {}  # the host creates the container with its first checkpoint
        return found

    async def _partition(self, partition: str, limit: asyncio.Semaphore) -> HubPartition:
        async with limit:
            its = await self._hub.get_partition_properties(partition)
        return HubPartition(partition, its["beginning_sequence_number"], its["last_enqueued_sequence_number"])


def _number(metadata: Mapping[str, str] | None) -> int | None:
    text = (metadata or {}).get(SEQUENCE_NUMBER, "")
    return int(text) if text.lstrip("-").isdecimal() else None


@contextmanager
def faults(service: str) -> Iterator[None]:
    """Turn the errors of the SDKs into `HubReadError`."""
    try:
        yield
    except (AzureError, EventHubError) as error:
        raise HubReadError(f"{service}: {type(error).__name__}") from error
