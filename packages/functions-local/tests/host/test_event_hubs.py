"""Event hub triggers, with the broker of servicebus-local and Azurite."""

from __future__ import annotations

import asyncio
import json
import signal
import time
import urllib.request
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio
from azure.eventhub.aio import EventHubConsumerClient
from azure.eventhub.amqp import AmqpAnnotatedMessage

from tests.host.hubs import AZURITE, HUB, Stage, Storage, bodies, start_hub, start_storage
from tests.host.processes import PATIENCE, connection_string, until

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(find_spec("servicebus_local") is None, reason="needs the package servicebus-local"),
    pytest.mark.skipif(not AZURITE.exists(), reason="needs Azurite (npm install at the repository's root)"),
    # The client does not close the sockets of cut connections.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def storage() -> AsyncIterator[Storage]:
    """Run Azurite."""
    started = await start_storage()
    yield started
    await started.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def stage(tmp_path: Path, storage: Storage) -> AsyncIterator[Stage]:
    """Run a broker with a new hub, and delete the checkpoints of the previous hub."""
    async with storage.container() as container:
        if await container.exists():
            async for blob in container.list_blob_names():
                await container.delete_blob(blob)
    stage = Stage(tmp_path, storage, await start_hub(tmp_path))
    yield stage
    for part in [*stage.parts, stage.broker]:
        await part.stop(signal.SIGKILL)


async def test_a_function_sees_every_property_of_its_events(stage: Stage) -> None:
    """Bodies byte for byte, place, key, a naive time, properties; batches no larger than host.json says."""
    await stage.host()
    properties = {"traceparent": "00-1", "n": 7}
    event = AmqpAnnotatedMessage(data_body=b"\xff\x00", application_properties=properties)
    await stage.send("1", event, *(str(number).encode() for number in range(24)))
    seen = await stage.traced("patient", 25)
    assert bodies(seen) == ["\xff\x00", *map(str, range(24))]
    assert [event["number"] for event in seen] == list(range(25))
    first = seen[0]
    assert (first["partition"], first["offset"], first["key"], first["retry"]) == ("1", 0, None, 0)
    assert first["properties"][0] == properties
    assert "+" not in first["enqueued"]
    assert first["context"] == {
        "FullyQualifiedNamespace": "127.0.0.1",
        "EventHubName": HUB,
        "ConsumerGroup": "ingestion",
        "PartitionId": "1",
        "IsCheckpointingAfterInvocation": True,
    }
    assert max(event["batch"] for event in seen) <= 10
    assert len(await stage.traced("careless", 25)) == 25


async def test_checkpoints_are_those_of_the_extension(stage: Stage) -> None:
    """Names in lower case, empty blobs, all in the metadata; ownership beside them."""
    await stage.host()
    await _until_readers(stage)
    await stage.send("0", b"a", b"b")
    found = await stage.until_checkpoint("0", 1)
    (last,) = [event for event in await stage.traced("patient", 2) if event["number"] == 1]
    assert found["offset"] == str(last["offset"])
    assert found["clientidentifier"]
    async with stage.storage.container() as container:
        names = [blob async for blob in container.list_blobs(include=["metadata"])]
    by_name = {blob.name: blob for blob in names}
    assert f"127.0.0.1/{HUB}/ingestion/checkpoint/0" in by_name
    owner = by_name[f"127.0.0.1/{HUB}/$default/ownership/1"]
    assert owner.metadata["ownerid"]
    assert {blob.size for blob in names} == {0}


async def test_ownership_is_renewed(stage: Stage) -> None:
    """So that whoever looks at the blobs knows that a host reads the partition."""
    await stage.host()
    await _until_readers(stage)
    async with stage.storage.container() as container:
        blob = container.get_blob_client(f"127.0.0.1/{HUB}/ingestion/ownership/0")
        claimed_at = (await blob.get_blob_properties()).last_modified
        async with asyncio.timeout(PATIENCE):
            while (await blob.get_blob_properties()).last_modified == claimed_at:
                await asyncio.sleep(0.2)


async def test_a_killed_host_resumes_after_its_checkpoint(stage: Stage) -> None:
    """Events sent meanwhile are read, and no event before a checkpoint is read twice."""
    host = await stage.host()
    await stage.send("0", b"before")
    await stage.until_checkpoint("0", 0)
    await host.stop(signal.SIGKILL)
    await stage.send("0", b"meanwhile")
    await stage.host()
    assert bodies(await stage.traced("patient", 2)) == ["before", "meanwhile"]


async def test_a_partition_waits_until_its_failed_batch_succeeds(stage: Stage) -> None:
    """With unlimited retries: no checkpoint, no later event is read, the other partition continues."""
    (stage.folder / "failing").touch()
    await stage.host()
    await stage.send("0", b"fail")
    await until((stage.folder / "failed").exists)
    await stage.send("0", b"after")
    await stage.send("1", b"elsewhere")
    assert bodies(await stage.traced("patient", 1)) == ["elsewhere"]
    assert await stage.checkpoint("0") is None
    (stage.folder / "failing").unlink()
    seen = await stage.traced("patient", 3)
    assert bodies(seen)[1:] == ["fail", "after"]
    assert seen[1]["retry"] > 0
    await stage.until_checkpoint("0", 1)


async def test_an_event_that_cannot_be_bound_holds_its_own_partition_only(stage: Stage) -> None:
    """Each attempt fails before the function; the way out is a checkpoint that names that event."""
    host = await stage.host()
    await stage.send("0", AmqpAnnotatedMessage(value_body={"a": 1}))
    await stage.send("0", b"behind")
    await stage.send("1", b"elsewhere")
    assert bodies(await stage.traced("patient", 1)) == ["elsewhere"]
    await until(lambda: host.log.count("patient") and "NotSupportedException" in host.log)
    assert await stage.checkpoint("0") is None
    await stage.until_checkpoint("1", 0)  # else it is read again
    await host.stop()
    await stage.set_checkpoint("0", offset="0", sequencenumber="0")
    await stage.host()
    assert bodies(await stage.traced("patient", 2)) == ["elsewhere", "behind"]


async def test_readers_come_back_after_the_broker_was_killed(stage: Stage) -> None:
    """No event is lost or read twice; the start and the end of the outage are logged once."""
    host = await stage.host()
    await stage.send("0", b"before")
    await stage.until_checkpoint("0", 0)
    port = stage.port
    await stage.broker.stop(signal.SIGKILL)
    await until(lambda: host.log.count("is not reachable") == 2)  # one for each function
    stage.broker = await start_hub(stage.folder, port)
    await stage.send("0", b"after")
    assert bodies(await stage.traced("patient", 2)) == ["before", "after"]
    await until(lambda: host.log.count("is reachable again") == 2)
    assert host.log.count("is not reachable") == 2


async def test_a_stolen_partition_is_taken_again_later(stage: Stage) -> None:
    """From the checkpoint, after the load balancing interval."""
    host = await stage.host()
    await stage.send("0", b"mine")
    await stage.until_checkpoint("0", 0)
    thief = EventHubConsumerClient.from_connection_string(
        connection_string(stage.port), "ingestion", eventhub_name=HUB, retry_total=0
    )
    async with thief:
        # Attached until the host has noticed, and gone with the end of the block.
        reading = asyncio.create_task(
            thief.receive(_ignore, partition_id="0", owner_level=1, starting_position="@latest")
        )
        await until(lambda: "was taken by another reader" in host.log)
        reading.cancel()
        await asyncio.wait([reading])
    await stage.send("0", b"again")
    assert bodies(await stage.traced("patient", 2)) == ["mine", "again"]


async def _ignore(*_: object) -> None:
    pass


async def test_a_checkpoint_beyond_the_hubs_end_is_named_and_nothing_read(stage: Stage) -> None:
    """After a reset of only the hub, the host does not restart at the first event."""
    host = await stage.host()
    await stage.send("0", *[b"x"] * 10)
    await stage.until_checkpoint("0", 9)
    await host.stop()
    await stage.broker.stop()
    stage.broker = await start_hub(stage.folder, data="new")
    await stage.send("0", b"new")
    host = await stage.host()
    await until(lambda: f"azure-webjobs-eventhub/127.0.0.1/{HUB}/ingestion/checkpoint/0" in host.log)
    assert "lies beyond the end of the hub" in host.log
    assert len(await stage.traced("patient", 10)) == 10


async def test_a_host_that_stops_during_a_batch_writes_no_checkpoint(stage: Stage) -> None:
    """It ends in time, and the batch comes again."""
    host = await stage.host()
    await stage.send("0", b"hold")
    await until((stage.folder / "held").exists)
    began = time.monotonic()
    assert await host.stop() == 0
    assert time.monotonic() - began < 30, "it waits for the function"
    assert await stage.checkpoint("0") is None


async def test_a_new_host_begins_at_the_initial_offset(stage: Stage) -> None:
    """Without a checkpoint, by `initialOffsetOptions`."""
    await stage.send("0", b"old")
    await stage.host(AzureFunctionsJobHost__extensions__eventHubs__initialOffsetOptions__type="fromEnd")
    await _until_readers(stage)
    await stage.send("0", b"new")
    assert bodies(await stage.traced("patient", 1)) == ["new"]


async def _until_readers(stage: Stage) -> None:
    admin = stage.broker.ready.split("admin: ")[1]

    def connected() -> bool:
        with urllib.request.urlopen(f"{admin}/hubs", timeout=30) as answer:  # noqa: S310 - http only
            (hub,) = json.load(answer)
        return all(len(partition["readers"]) == 2 for partition in hub["partitions"])

    await until(connected)
