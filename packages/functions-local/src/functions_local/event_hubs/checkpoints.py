"""Checkpoints and ownership of partitions: blobs without content, all in their metadata.

Container, names and metadata are those of the Event Hubs extension (`azure-webjobs-eventhub`), so that its
tools find them, and an app in Azure can resume from them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.core.pipeline.transport import AioHttpTransport
from azure.storage.blob.aio import ContainerClient

from functions_local.connections import ConnectionSettings, malformed, missing

CONTAINER = "azure-webjobs-eventhub"
#: The setting with the host's own storage account.
_STORAGE = "AzureWebJobsStorage"


def checkpoint_container(settings: ConnectionSettings, used_by: str) -> ContainerClient:
    """Return the container in the host's storage account. Raises StartError without a usable setting."""
    # Otherwise aiohttp would read the environment's proxy and .netrc for every request.
    transport = AioHttpTransport(use_env_settings=False)
    if text := settings.value(_STORAGE):
        try:
            return ContainerClient.from_connection_string(text, CONTAINER, transport=transport)
        except ValueError as error:
            raise malformed(_STORAGE, used_by, error) from error
    if address := settings.value(_STORAGE, "__blobServiceUri"):
        return ContainerClient(address, CONTAINER, settings.login(), transport=transport)
    if name := settings.value(_STORAGE, "__accountName"):
        address = f"https://{name}.blob.core.windows.net"
        return ContainerClient(address, CONTAINER, settings.login(), transport=transport)
    raise missing(_STORAGE, used_by)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The last processed event of a partition. An offset is a text, not always a number."""

    offset: str | None
    sequence_number: int | None


class Checkpoints:
    """The checkpoints and the ownership of one hub's partitions in one consumer group."""

    def __init__(self, container: ContainerClient, folder: str, owner: str) -> None:
        """Use the blobs below `{namespace}/{hub}/{group}`; `owner` identifies this host."""
        self.folder = folder.lower()
        self._container = container
        self._owner = owner

    async def load(self, partition: str) -> Checkpoint | None:
        """Return a partition's checkpoint; None if it has none. Raises the service's errors."""
        try:
            blob = await self._container.get_blob_client(self.name(partition)).get_blob_properties()
        except ResourceNotFoundError:
            return None
        offset, number = (blob.metadata.get(name) for name in ("offset", "sequencenumber"))
        return Checkpoint(offset or None, int(number) if number else None)

    async def save(self, partition: str, checkpoint: Checkpoint) -> None:
        """Write a partition's checkpoint. Raises the service's errors."""
        metadata = {"clientidentifier": self._owner}
        if checkpoint.offset is not None:
            metadata["offset"] = checkpoint.offset
        if checkpoint.sequence_number is not None:
            metadata["sequencenumber"] = str(checkpoint.sequence_number)
        blob = self._container.get_blob_client(self.name(partition))
        try:
            await blob.set_blob_metadata(metadata)
        except ResourceNotFoundError:
            await blob.upload_blob(b"", metadata=metadata, overwrite=True)

    async def claim(self, partition: str) -> None:
        """Make this host the owner of a partition. Raises the service's errors.

        Only one host runs here: any other owner in the blob has ended.
        """
        await self._write_owner(partition, self._owner)

    async def release(self, partition: str) -> None:
        """Release a partition, so that another host can claim it at once. Raises the service's errors."""
        await self._write_owner(partition, "")

    async def prepare(self) -> None:
        """Create the container. Raises the service's errors."""
        with suppress(ResourceExistsError):
            await self._container.create_container()

    def name(self, partition: str) -> str:
        """Return the name of a partition's checkpoint."""
        return f"{self.folder}/checkpoint/{partition}"

    async def _write_owner(self, partition: str, owner: str) -> None:
        blob = self._container.get_blob_client(f"{self.folder}/ownership/{partition}")
        try:
            await blob.set_blob_metadata({"ownerid": owner})
        except ResourceNotFoundError:
            await blob.upload_blob(b"", metadata={"ownerid": owner}, overwrite=True)
