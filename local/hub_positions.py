"""How far an event hub's readers are: the hub says what it keeps, and the host's blobs what was taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError, ResourceNotFoundError

from functions.connections import Connection, SettingsError

if TYPE_CHECKING:
    from azure.eventhub.aio import EventHubProducerClient
    from azure.storage.blob.aio import ContainerClient

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


def connect_checkpoints(connection: Connection) -> Callable[[], ContainerClient]:
    """Return a function that makes the client of the checkpoints at its first call."""
    return cache(lambda: _container(connection))


def _container(connection: Connection) -> ContainerClient:
    from azure.storage.blob.aio import ContainerClient  # noqa: PLC0415 - with the first read

    name = "azure-webjobs-eventhub"
    if connection.connection_string:
        try:
            return ContainerClient.from_connection_string(connection.connection_string, name)
        except ValueError:
            raise SettingsError("setting AzureWebJobsStorage is wrong (not a connection string)") from None
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - only with an identity

    credential = DefaultAzureCredential(managed_identity_client_id=connection.client_id)
    return ContainerClient(connection.address or "", name, credential)


class BlobPositions:
    """Reads the positions of one hub and consumer group. Its methods raise `HubReadError`."""

    def __init__(
        self,
        hub: Callable[[], EventHubProducerClient],
        blobs: Callable[[], ContainerClient],
        *,
        namespace: str,
        name: str,
        consumer_group: str,
    ) -> None:
        self._hub = hub
        self._blobs = blobs
        self._prefix = checkpoint_folder(namespace, name, consumer_group)

    async def partitions(self) -> Sequence[HubPartition]:
        """Read each partition's first and last number from the hub."""
        limit = asyncio.Semaphore(_AT_ONCE)
        with faults("Event Hubs"):
            ids = await self._hub().get_partition_ids()
            return await asyncio.gather(*(self._partition(each, limit) for each in ids))

    async def checkpoints(self) -> Mapping[str, int]:
        """Read all checkpoints in one listing."""
        found: dict[str, int] = {}
        with faults("Blob Storage"):
            try:
                async for blob in self._blobs().list_blobs(self._prefix, include=["metadata"]):
                    number = _number(blob.metadata)
                    if number is not None:
                        found[blob.name.removeprefix(self._prefix)] = number
            except ResourceNotFoundError:
                return {}  # the host creates the container with its first checkpoint
        return found

    async def _partition(self, partition: str, limit: asyncio.Semaphore) -> HubPartition:
        async with limit:
            its = await self._hub().get_partition_properties(partition)
        return HubPartition(partition, its["beginning_sequence_number"], its["last_enqueued_sequence_number"])


def _number(metadata: Mapping[str, str] | None) -> int | None:
    text = (metadata or {}).get(SEQUENCE_NUMBER, "")
    return int(text) if text.lstrip("-").isdecimal() else None


@contextmanager
def faults(service: str) -> Iterator[None]:
    """Turn the errors of the SDKs into `HubReadError`."""
    from azure.eventhub.exceptions import EventHubError  # noqa: PLC0415 - with the first read

    try:
        yield
    except (AzureError, EventHubError) as error:
        raise HubReadError(f"{service}: {type(error).__name__}") from error
