"""Shows and moves how far the event hub is taken: `python -m local.checkpoints [PARTITION NUMBER]`.

The environment names hub and storage, as for the application; without `AzureWebJobsStorage`, they are those
of `python -m local up` with its own ports. Exit codes: 0: done. 1: a fault; run it again. 2: refused.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.eventhub import parse_connection_string
from azure.eventhub.aio import EventHubProducerClient
from azure.eventhub.exceptions import EventHubError
from azure.identity.aio import DefaultAzureCredential
from azure.storage.blob.aio import ContainerClient
from pydantic import ValidationError

from functions.connections import Connection, SettingsError, connection_string_of
from functions.settings import Settings, faults_of
from local.platform import INTERRUPTED, ROOT, Addresses, PlatformPorts
from local.platform.app import application_settings

#: Partitions that are read at the same time: each opens a connection, and the service takes 50 calls/s.
_AT_ONCE = 8

#: The blob metadata with the number of the last event that was taken.
_SEQUENCE_NUMBER = "sequencenumber"
_FAILED, _REFUSED = 1, 2
_ALL = "all"
#: An instance renews what it owns each half minute, and loses it after this time (`host.json`'s default).
_OWNED_FOR = timedelta(minutes=2)

#: The number of the last event that counts as taken, or one end of the hub's events.
type Target = int | Literal["start", "end"]


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


@contextmanager
def faults(service: str) -> Iterator[None]:
    """Turn the errors of the SDKs into `HubReadError`."""
    try:
        yield
    except (AzureError, EventHubError) as error:
        raise HubReadError(f"{service}: {type(error).__name__}") from error


class PositionsKeptError(Exception):
    """The positions stay as they are; the text says why."""


@dataclass(frozen=True, slots=True)
class HubReaders:
    """A hub, and the blobs with the positions of one consumer group."""

    hub: EventHubProducerClient
    blobs: ContainerClient
    folder: str

    async def partitions(self) -> Sequence[HubPartition]:
        """Read each partition's first and last number from the hub. Raises `HubReadError`."""
        limit = asyncio.Semaphore(_AT_ONCE)
        with faults("Event Hubs"):
            ids = await self.hub.get_partition_ids()
            return await asyncio.gather(*(self._partition(each, limit) for each in ids))

    async def _partition(self, partition: str, limit: asyncio.Semaphore) -> HubPartition:
        async with limit:
            its = await self.hub.get_partition_properties(partition)
        return HubPartition(partition, its["beginning_sequence_number"], its["last_enqueued_sequence_number"])

    async def checkpoints(self) -> Mapping[str, int]:
        """Read all checkpoints in one listing. Raises `HubReadError`."""
        found: dict[str, int] = {}
        with faults("Blob Storage"):
            try:
                async for blob in self.blobs.list_blobs(self.folder, include=["metadata"]):
                    number = (blob.metadata or {}).get(_SEQUENCE_NUMBER, "")
                    if number.lstrip("-").isdecimal():
                        found[blob.name.removeprefix(self.folder)] = int(number)
            except ResourceNotFoundError:
                return {}  # the host creates the container with its first checkpoint
        return found

    async def move(
        self, partitions: Sequence[HubPartition], target: Target, *, are_left: bool = False
    ) -> None:
        """Set the checkpoints; with `are_left`, ignore the ownership blobs of readers that have ended.

        Raises `PositionsKeptError` for a target beyond the end, or a partition with a reader; `AzureError`.
        """
        if isinstance(target, int) and any(target > each.last for each in partitions):
            raise PositionsKeptError(f"{target} lies beyond the end of the hub: nothing would be read")
        if not are_left:
            await self._check_left(partitions)
        for each in partitions:
            number = {"start": each.begin - 1, "end": each.last}.get(str(target), target)
            await self._write(each.id, int(number))

    async def _write(self, partition: str, number: int) -> None:
        """Write it without an offset: the reader then goes by the number."""
        blob = self.blobs.get_blob_client(self.folder + partition)
        if number < 0:  # before the first event: no checkpoint
            with suppress(ResourceNotFoundError):
                await blob.delete_blob()
        else:
            metadata = {_SEQUENCE_NUMBER: str(number), "clientidentifier": "moved"}
            await blob.upload_blob(b"", metadata=metadata, overwrite=True)

    async def _check_left(self, partitions: Sequence[HubPartition]) -> None:
        """Refuse what an instance reads. Raises `PositionsKeptError`, `AzureError`."""
        wanted = {each.id for each in partitions}
        owners = self.folder.removesuffix("checkpoint/") + "ownership/"
        recent = datetime.now(UTC) - _OWNED_FOR
        async for blob in self.blobs.list_blobs(owners, include=["metadata"]):
            partition = blob.name.removeprefix(owners)
            owned = (blob.metadata or {}).get("ownerid") and blob.last_modified > recent
            if partition in wanted and owned:
                raise PositionsKeptError(
                    f"partition {partition} is read by an instance: disable the function `ingestion`"
                    f" (AzureWebJobs.ingestion.Disabled=true), and wait for {_OWNED_FOR.seconds} s"
                )


def main(arguments: Sequence[str] | None = None) -> int:
    """Show or move the positions that the command line names, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m local.checkpoints",
        description="Shows how far the event hub is taken, or moves that: back, to have events taken again,"
        " which changes nothing of orders that are known; or forward, past an event that can't be taken.",
    )
    parser.add_argument("partition", nargs="?", help=f"its id, or {_ALL}; without it, all are shown")
    parser.add_argument(
        "target", nargs="?", type=_target, help="the last event that counts as taken, or `start`, or `end`"
    )
    chosen = parser.parse_args(arguments)
    if (chosen.partition is None) is not (chosen.target is None):
        parser.error("give a partition and where to go, or neither")
    try:
        with faults("Blob Storage"):
            asyncio.run(_run(chosen.partition, chosen.target))
    except KeyboardInterrupt:
        return INTERRUPTED
    except ValidationError as error:
        print(*(f"setting {name} {what}" for name, what in faults_of(error)), sep="\n", file=sys.stderr)
        return _REFUSED
    except (SettingsError, PositionsKeptError) as refused:
        print(refused, file=sys.stderr)
        return _REFUSED
    except HubReadError as fault:
        print(f"{fault}: run it again", file=sys.stderr)
        return _FAILED
    return 0


async def _run(partition: str | None, target: Target | None) -> None:
    environment = os.environ
    if not any(each.startswith("AzureWebJobsStorage") for each in environment):
        local = {"EventHubConnection": "UseDevelopmentEmulator=true"}
        environment |= application_settings(ROOT, environment, Addresses(PlatformPorts()), local)
    name = "AzureWebJobsStorage"
    address, client_id = environment.get(f"{name}__blobServiceUri"), environment.get(f"{name}__clientId")
    host_storage = Connection(environment.get(name), address, client_id, setting=name)
    async with AsyncExitStack() as stack:
        readers = await open_readers(stack, Settings(), host_storage)
        partitions = await readers.partitions()
        if partition is not None and target is not None:
            wanted = [each for each in partitions if partition in {_ALL, each.id}]
            if not wanted:
                raise PositionsKeptError(f"the hub has no partition {partition!r}")
            await readers.move(wanted, target)
        _show(partitions, await readers.checkpoints())


async def open_readers(stack: AsyncExitStack, settings: Settings, host_storage: Connection) -> HubReaders:
    """Connect to the hub and the host's blobs until the stack is closed. Raises `SettingsError`."""
    connection = settings.event_hubs_connection
    if connection is None:
        raise SettingsError("setting EventHubConnection is missing: there is no event hub")
    hub, namespace = connect_hub(connection, settings.event_hub_name)
    blobs = connect_checkpoints(host_storage)
    await stack.enter_async_context(hub)
    await stack.enter_async_context(blobs)
    folder = checkpoint_folder(namespace, hub.eventhub_name, settings.event_hub_consumer_group)
    return HubReaders(hub, blobs, folder)


def _show(partitions: Sequence[HubPartition], checkpoints: Mapping[str, int]) -> None:
    print(f"{'partition':>9} {'kept from':>10} {'to':>10} {'taken to':>10} {'waiting':>10}")
    for each in partitions:
        taken = checkpoints.get(each.id)
        shown, waiting = "-" if taken is None else taken, each.waiting(taken)
        print(f"{each.id:>9} {each.begin:>10} {each.last:>10} {shown:>10} {waiting:>10}")


def _target(text: str) -> Target:
    if text in {"start", "end"}:
        return text  # type: ignore[return-value]
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of an event, `start` or `end`")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
