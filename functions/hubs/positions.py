"""How far a hub's readers are: the hub says what it keeps, and the host's blobs what was taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError, ResourceNotFoundError

from functions.pattern.errors import TransientError
from functions.pattern.hub_positions import HubPartition

if TYPE_CHECKING:
    from azure.eventhub.aio import EventHubProducerClient
    from azure.storage.blob.aio import ContainerClient

#: Partitions that are asked at one time: each opens a connection, and the service takes 50 calls a second.
_AT_ONCE = 8

#: What the host calls the number of the last event that is done with.
SEQUENCE_NUMBER = "sequencenumber"


def checkpoint_folder(namespace: str, hub: str, consumer_group: str) -> str:
    """Name what the host's checkpoints of one hub and consumer group are below, each by its partition."""
    return f"{namespace}/{hub}/{consumer_group}/checkpoint/".lower()


class BlobPositions:
    """Reads the positions of one hub and consumer group."""

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
        """Ask the hub for each partition's first and last number."""
        limit = asyncio.Semaphore(_AT_ONCE)
        with _faults("Event Hubs"):
            ids = await self._hub().get_partition_ids()
            return await asyncio.gather(*(self._partition(each, limit) for each in ids))

    async def checkpoints(self) -> Mapping[str, int]:
        """Read all checkpoints in one listing."""
        found: dict[str, int] = {}
        with _faults("Blob Storage"):
            try:
                async for blob in self._blobs().list_blobs(self._prefix, include=["metadata"]):
                    number = _number(blob.metadata)
                    if number is not None:
                        found[blob.name.removeprefix(self._prefix)] = number
            except ResourceNotFoundError:
                return {}  # the host makes the container with its first checkpoint
        return found

    async def checkpoint(self, partition: str) -> int | None:
        """Read one partition's checkpoint."""
        with _faults("Blob Storage"):
            try:
                properties = (
                    await self._blobs().get_blob_client(self._prefix + partition).get_blob_properties()
                )
            except ResourceNotFoundError:
                return None
        return _number(properties.metadata)

    async def _partition(self, partition: str, limit: asyncio.Semaphore) -> HubPartition:
        async with limit:
            its = await self._hub().get_partition_properties(partition)
        return HubPartition(partition, its["beginning_sequence_number"], its["last_enqueued_sequence_number"])


def _number(metadata: Mapping[str, str] | None) -> int | None:
    text = (metadata or {}).get(SEQUENCE_NUMBER, "")
    return int(text) if text.lstrip("-").isdecimal() else None


@contextmanager
def _faults(service: str) -> Iterator[None]:
    """Turn what the SDKs raise into `TransientError`."""
    from azure.eventhub.exceptions import EventHubError  # noqa: PLC0415 - with the first look

    try:
        yield
    except (AzureError, EventHubError) as error:
        raise TransientError(f"{service}: {type(error).__name__}") from error
