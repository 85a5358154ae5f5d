"""The checkpoints of the hub's readers are read as the Functions host writes them: blobs without a body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
from azure.storage.blob.aio import ContainerClient

from functions.connections import Connection
from local.hub_positions import BlobPositions, connect_checkpoints

pytestmark = pytest.mark.process

_FOLDER = "127.0.0.1/order-events/ingestion"


@pytest.fixture
async def blobs(connection: Connection) -> AsyncIterator[Callable[[], ContainerClient]]:
    """Connect to the host's container, which is not there yet."""
    container = connect_checkpoints(connection)
    yield container
    await container().close()


async def test_checkpoints_are_read_with_their_numbers(blobs: Callable[[], ContainerClient]) -> None:
    """All in one listing; before the first one there is not even a container."""
    positions = BlobPositions(
        cast("Any", None), blobs, namespace="127.0.0.1", name="order-events", consumer_group="ingestion"
    )
    assert await positions.checkpoints() == {}
    await blobs().create_container()
    for partition, number in (("0", "17"), ("31", "2147483648")):
        metadata = {"offset": "880", "sequencenumber": number, "clientidentifier": "x"}
        await blobs().upload_blob(f"{_FOLDER}/checkpoint/{partition}", b"", metadata=metadata)
        await blobs().upload_blob(f"{_FOLDER}/ownership/{partition}", b"", metadata={"ownerid": "x"})
    await blobs().upload_blob("127.0.0.1/other/ingestion/checkpoint/0", b"", metadata={"sequencenumber": "3"})
    assert await positions.checkpoints() == {"0": 17, "31": 2_147_483_648}
