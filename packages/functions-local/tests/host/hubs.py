"""A broker with a hub, Azurite for the checkpoints, and an app that reads the hub."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from azure.eventhub import EventData
from azure.eventhub.aio import EventHubProducerClient
from azure.eventhub.amqp import AmqpAnnotatedMessage
from azure.storage.blob.aio import ContainerClient

from tests.host.processes import (
    STARTED,
    Part,
    broker_port,
    connection_string,
    start,
    start_host,
    traces,
    until,
)

AZURITE = Path(__file__).parents[4] / "node_modules" / ".bin" / "azurite"
APP = Path(__file__).parent / "apps" / "hubs"
HUB = "orders"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_FOLDER = f"127.0.0.1/{HUB}"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@dataclass
class Storage:
    """A running Azurite."""

    process: asyncio.subprocess.Process
    port: int

    async def stop(self) -> None:
        """Stop it."""
        self.process.kill()
        await self.process.wait()

    @property
    def connection(self) -> str:
        """The connection string."""
        blobs = f"BlobEndpoint=http://127.0.0.1:{self.port}/devstoreaccount1"
        return f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={_KEY};{blobs};"

    def container(self) -> ContainerClient:
        """Return the container of the checkpoints."""
        return ContainerClient.from_connection_string(self.connection, "azure-webjobs-eventhub")


async def start_storage() -> Storage:
    """Run Azurite's blobs in memory until the end of the module."""
    port = _free_port()
    words = ("--blobPort", port, "--queuePort", 0, "--tablePort", 0, "--inMemoryPersistence", "--silent")
    process = await asyncio.create_subprocess_exec(
        str(AZURITE), *map(str, words), "--skipApiVersionCheck", stdout=asyncio.subprocess.DEVNULL
    )
    STARTED.append(process)
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
            continue
        writer.close()
        return Storage(process, port)


async def start_hub(folder: Path, port: int = 0, *, data: str = "broker", partitions: int = 2) -> Part:
    """Start the broker with the hub."""
    hub = {"name": HUB, "partitionCount": partitions, "consumerGroups": ["ingestion"]}
    config = folder / "hubs.json"
    config.write_text(json.dumps({"hubs": [hub]}))
    return await start(
        "servicebus_local",
        *("--hubs", config, "--port", port, "--admin-port", 0, "--data", folder / data),
        environment={},
        log_file=folder / "broker.log",
    )


@dataclass
class Stage:
    """One test's parts."""

    folder: Path
    storage: Storage
    broker: Part
    parts: list[Part] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The broker's port."""
        return broker_port(self.broker)

    async def host(self, **settings: str) -> Part:
        """Start the app."""
        part = await start_host(
            self.folder,
            app=APP,
            settings={
                "HUB": HUB,
                "Hub": connection_string(self.port),
                "AzureWebJobsStorage": self.storage.connection,
                **settings,
            },
        )
        self.parts.append(part)
        return part

    async def send(self, partition: str, *bodies: bytes | AmqpAnnotatedMessage) -> None:
        """Send events to a partition, in one batch."""
        producer = EventHubProducerClient.from_connection_string(
            connection_string(self.port), eventhub_name=HUB
        )
        async with producer:
            events: list[Any] = [EventData(body) if isinstance(body, bytes) else body for body in bodies]
            await producer.send_batch(events, partition_id=partition)

    async def traced(self, name: str, count: int) -> list[dict[str, Any]]:
        """Wait for as many events, and return them."""

        def found() -> list[dict[str, Any]] | None:
            seen = traces(self.folder, name)
            return seen if len(seen) >= count else None

        return await until(found)

    async def checkpoint(self, partition: str, group: str = "ingestion") -> dict[str, str] | None:
        """Return the metadata of a partition's checkpoint."""
        async with self.storage.container() as container:
            async for blob in container.list_blobs(
                f"{_FOLDER}/{group}/checkpoint/{partition}", include=["metadata"]
            ):
                return dict(blob.metadata)
        return None

    async def until_checkpoint(self, partition: str, number: int, group: str = "ingestion") -> dict[str, str]:
        """Wait until a partition's checkpoint has a sequence number."""
        for _ in range(3000):
            found = await self.checkpoint(partition, group)
            if found is not None and found.get("sequencenumber") == str(number):
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"the checkpoint is {found}")

    async def set_checkpoint(self, partition: str, **metadata: str) -> None:
        """Write a partition's checkpoint, as an operator does."""
        async with self.storage.container() as container:
            blob = container.get_blob_client(f"{_FOLDER}/ingestion/checkpoint/{partition}")
            await blob.upload_blob(b"", metadata=metadata, overwrite=True)


def bodies(seen: Sequence[dict[str, Any]]) -> list[str]:
    """Return the bodies of traced events."""
    return [event["body"] for event in seen]
