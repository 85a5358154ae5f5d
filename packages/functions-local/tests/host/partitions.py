"""A partition's loop with stand-ins for the client, the container of the checkpoints, and the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.eventhub import EventData
from azure.eventhub.aio import EventHubConsumerClient
from azure.eventhub.exceptions import ConnectionLostError
from azure.storage.blob.aio import ContainerClient

from functions_local.app import EventHubTrigger, RetryPolicy
from functions_local.event_hubs.checkpoints import Checkpoints
from functions_local.event_hubs.clients import HubClient
from functions_local.event_hubs.outage import Outage
from functions_local.event_hubs.partition import PartitionLoop, PartitionWork
from functions_local.host_json import EventHubsOptions
from tests.host.doubles import FakeWorker, function, invocations

TRIGGER = EventHubTrigger("events", "Hub", "orders", "group", binary=True)
CHECKPOINT = "ns/orders/group/checkpoint/0"
OPTIONS = EventHubsOptions().model_copy(update={"load_balancing_update_interval": timedelta(milliseconds=10)})


@dataclass
class FakeContainer:
    """Blobs by name, as far as their metadata go."""

    blobs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    #: How many operations fail from now on.
    failing: int = 0

    def get_blob_client(self, name: str) -> FakeBlob:
        """Return a blob."""
        return FakeBlob(self, name)


@dataclass
class FakeBlob:
    """One blob of a container."""

    container: FakeContainer
    name: str

    def _found(self) -> Mapping[str, str]:
        if self.container.failing:
            self.container.failing -= 1
            raise HttpResponseError("down")
        if self.name not in self.container.blobs:
            raise ResourceNotFoundError("none")
        return self.container.blobs[self.name]

    async def get_blob_properties(self) -> Any:
        """Return the metadata."""
        return SimpleNamespace(metadata=self._found())

    async def set_blob_metadata(self, metadata: Mapping[str, str]) -> None:
        """Change the metadata of a blob that is there."""
        self._found()
        self.container.blobs[self.name] = metadata

    async def upload_blob(self, _data: bytes, *, metadata: Mapping[str, str], overwrite: bool) -> None:
        """Make the blob."""
        assert overwrite
        self.container.blobs[self.name] = metadata


type Session = Callable[[Callable[[list[EventData]], Awaitable[None]]], Awaitable[None]]


@dataclass
class FakeClient:
    """Plays one session after the other, then waits."""

    sessions: list[Session]
    positions: list[object] = field(default_factory=list)
    _consumer_group: str = "group"

    def _create_consumer(
        self, _group: str, _partition: str, position: object, on_events: Any, **options: object
    ) -> Any:
        assert options["owner_level"] == 0
        self.positions.append(position)
        session = self.sessions.pop(0) if self.sessions else no_events

        async def receive(**_: object) -> None:
            await session(on_events)

        async def close() -> None:
            pass

        return SimpleNamespace(receive=receive, close=close)


async def no_events(_on_events: object) -> None:
    """Wait forever."""
    await asyncio.Event().wait()


def event(number: int, body: bytes = b"a") -> EventData:
    """Make an event."""
    facts = {
        "body": [body],
        "body_type": SimpleNamespace(value="data"),
        "sequence_number": number,
        "offset": str(number * 100),
        "partition_key": None,
        "enqueued_time": None,
        "properties": {},
    }
    return cast("EventData", SimpleNamespace(**facts))


def batches(*batches: list[EventData], then: Exception | None = None) -> Session:
    """Return a session that hands out batches, and ends with an error or never."""

    async def session(on_events: Callable[[list[EventData]], Awaitable[None]]) -> None:
        for batch in batches:
            await asyncio.ensure_future(on_events(batch))  # the client, too, calls it on a task of its own
        if then is not None:
            raise then
        await no_events(on_events)

    return session


def stolen() -> ConnectionLostError:
    """Return the error of a client whose partition another has taken."""
    error = ConnectionLostError("stolen")
    error.error = "link:stolen"
    return error


@dataclass
class Bench:
    """A partition's loop with everything around it."""

    client: FakeClient
    worker: FakeWorker = field(default_factory=FakeWorker)
    container: FakeContainer = field(default_factory=FakeContainer)
    options: EventHubsOptions = OPTIONS
    retry: RetryPolicy | None = None
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def loop(self) -> PartitionLoop:
        """Return the loop."""
        work = PartitionWork(
            replace(function(TRIGGER), retry=self.retry),
            TRIGGER,
            HubClient(cast("EventHubConsumerClient", self.client), "ns", "orders"),
            Checkpoints(cast("ContainerClient", self.container), "ns/orders/group", "me"),
            invocations(self.worker),
            self.options,
            Outage("f", "orders", "blobs"),
            self.stopping,
        )
        return PartitionLoop(work, "0")

    async def until(self, condition: Callable[[], object]) -> None:
        """Run the loop until a condition holds."""
        loop = self.loop()
        running = asyncio.create_task(loop.run())
        async with asyncio.timeout(10):
            while not condition() and not running.done():
                await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.wait([running])
        await loop.close()
        assert condition(), running

    def checkpoint(self) -> str | None:
        """Return the sequence number of the checkpoint."""
        return self.container.blobs.get(CHECKPOINT, {}).get("sequencenumber")
