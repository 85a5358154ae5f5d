"""One partition's loop, without a hub or a storage account: when it checkpoints, retries, waits and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from azure.eventhub import EventData
from azure.eventhub.aio import EventHubConsumerClient

from functions_local.app import RetryPolicy, RetryStrategy
from functions_local.event_hubs import partition as partition_module
from functions_local.event_hubs import reader
from functions_local.worker import Call, FunctionFailed, Outcome
from tests.host.doubles import NOTHING, FakeWorker
from tests.host.partitions import (
    CHECKPOINT,
    OPTIONS,
    Bench,
    FakeClient,
    FakeContainer,
    batches,
    event,
    no_events,
    stolen,
)


@pytest.fixture(autouse=True)
def _no_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_FIRST_DELAY", 0.001)
    monkeypatch.setattr(partition_module, "_STORAGE_DELAY", 0.001)


def _fails(times: int) -> Callable[[Call], Outcome]:
    left = iter(range(times))
    return lambda _call: NOTHING if next(left, None) is None else FunctionFailed("no", "")


def _policy(retries: int) -> RetryPolicy:
    delay = timedelta(milliseconds=1)
    return RetryPolicy(RetryStrategy.FIXED_DELAY, retries, delay, delay)


async def test_a_batch_that_fails_without_a_policy_has_its_checkpoint() -> None:
    """As in Azure; the next batch follows."""
    bench = Bench(FakeClient([batches([event(0)], [event(1)])]), FakeWorker(_fails(1)))
    await bench.until(lambda: bench.checkpoint() == "1")
    assert len(bench.worker.calls) == 2


async def test_a_batch_that_fails_is_tried_again_before_its_checkpoint() -> None:
    """As often as the policy says; each attempt knows which it is."""
    bench = Bench(FakeClient([batches([event(0)])]), FakeWorker(_fails(9)), retry=_policy(2))
    await bench.until(lambda: bench.checkpoint() == "0")
    assert [(call.retry_count, call.max_retry_count) for call in bench.worker.calls] == [
        (0, 2),
        (1, 2),
        (2, 2),
    ]


async def test_checkpoints_come_as_often_as_they_should() -> None:
    """`batchCheckpointFrequency`: the metadata marks each batch that a checkpoint follows."""
    options = OPTIONS.model_copy(update={"batch_checkpoint_frequency": 2})
    bench = Bench(FakeClient([batches([event(0)], [event(1)], [event(2)])]), options=options)
    await bench.until(lambda: len(bench.worker.calls) == 3)
    assert bench.checkpoint() == "1"
    told = [call.metadata["PartitionContext"].value for call in bench.worker.calls]
    assert ["true" in each for each in told] == [False, True, False]


async def test_without_checkpointing_there_is_none() -> None:
    """`enableCheckpointing` false."""
    options = OPTIONS.model_copy(update={"enable_checkpointing": False})
    bench = Bench(FakeClient([batches([event(0)], [event(1)])]), options=options)
    await bench.until(lambda: len(bench.worker.calls) == 2)
    assert bench.checkpoint() is None


@pytest.mark.parametrize(
    ("metadata", "position"),
    [
        ({"offset": "900", "sequencenumber": "9"}, "900"),
        ({"sequencenumber": "9"}, 9),
        ({"offset": "some:text"}, "some:text"),
        ({}, "-1"),
    ],
)
async def test_it_begins_after_the_checkpoint(metadata: dict[str, str], position: object) -> None:
    """After its offset, else after its number; a blob that says nothing is no checkpoint."""
    bench = Bench(FakeClient([no_events]), container=FakeContainer({CHECKPOINT: metadata}))
    await bench.until(lambda: bench.client.positions)
    assert bench.client.positions == [position]
    assert bench.container.blobs["ns/orders/group/ownership/0"] == {"ownerid": "me"}


async def test_a_lost_link_is_made_again_where_it_was_lost() -> None:
    """Not where the checkpoint is: nothing is read twice."""
    sessions = [batches([event(0), event(1)], then=OSError("cut")), batches([event(2)])]
    bench = Bench(FakeClient(sessions))
    await bench.until(lambda: bench.checkpoint() == "2")
    assert bench.client.positions == ["-1", "100"]


async def test_a_batch_outlives_its_link_and_is_not_run_twice() -> None:
    """The next batch of the new link waits for it."""
    worker = FakeWorker(hold=asyncio.Event())

    async def cut(on_events: Callable[[list[EventData]], Awaitable[None]]) -> None:
        handing_over = asyncio.ensure_future(on_events([event(0)]))
        while not worker.calls:
            await asyncio.sleep(0)
        handing_over.cancel()
        raise OSError("cut")

    bench = Bench(FakeClient([cut, batches([event(1)])]), worker)
    assert worker.hold is not None
    release = worker.hold

    def in_new_session() -> bool:
        if len(bench.client.positions) == 2:
            assert len(worker.calls) == 1 or release.is_set()
            release.set()
        return bench.checkpoint() == "1"

    await bench.until(in_new_session)
    assert [call.inputs["events"].value.bytes for call in worker.calls] == [[b"a"], [b"a"]]


async def test_a_stolen_partition_has_no_checkpoint_for_its_batch() -> None:
    """The other reader's counts: it begins after that when it takes the partition again."""
    worker = FakeWorker(hold=asyncio.Event())

    async def robbed(on_events: Callable[[list[EventData]], Awaitable[None]]) -> None:
        handing_over = asyncio.ensure_future(on_events([event(0)]))
        while not worker.calls:
            await asyncio.sleep(0)
        handing_over.cancel()
        raise stolen()

    bench = Bench(FakeClient([robbed]), worker)
    assert worker.hold is not None
    release = worker.hold
    bench.container.blobs[CHECKPOINT] = {"offset": "7", "sequencenumber": "7"}

    def later() -> bool:
        if worker.calls:
            release.set()
        return len(bench.client.positions) == 2

    await bench.until(later)
    assert (bench.client.positions[1], bench.checkpoint()) == ("7", "7")


async def test_a_batch_that_ends_when_the_host_stops_has_no_checkpoint() -> None:
    """It comes again: at least once."""
    worker = FakeWorker(hold=asyncio.Event())
    bench = Bench(FakeClient([batches([event(0)])]), worker)
    assert worker.hold is not None
    release = worker.hold

    def stop_during_the_batch() -> bool:
        if worker.calls:
            bench.stopping.set()
            release.set()
        return bench.stopping.is_set()

    loop = bench.loop()
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(10):
        while not stop_during_the_batch():
            await asyncio.sleep(0.001)
        await running
    assert bench.checkpoint() is None


async def test_a_batch_that_cannot_be_bound_never_reaches_the_function() -> None:
    """It fails like the function, and is retried like it."""
    bad = event(1)
    bad.body_type = SimpleNamespace(value="value")  # type: ignore[misc, assignment]
    bench = Bench(FakeClient([batches([event(0), bad], [event(2)])]), retry=_policy(1))
    await bench.until(lambda: bench.checkpoint() == "2")
    assert [call.inputs["events"].value.bytes for call in bench.worker.calls] == [[b"a"]]


async def test_a_partition_key_that_is_no_text_is_none() -> None:
    """A sender's own library may write anything there: it must not end the reading of all partitions."""
    bad = event(0)
    bad.partition_key = [b"a"]  # type: ignore[misc, assignment]
    bench = Bench(FakeClient([batches([bad], [event(1)])]))
    await bench.until(lambda: bench.checkpoint() == "1")
    assert [call.metadata["PartitionKeyArray"].value.string for call in bench.worker.calls] == [[""]] * 2


async def test_a_storage_that_is_down_delays_the_start_and_costs_no_batch() -> None:
    """Nothing is read before the checkpoint is; one that can't be written is left out."""
    bench = Bench(FakeClient([batches([event(0)], [event(1)])]), container=FakeContainer(failing=3))
    await bench.until(lambda: bench.checkpoint() == "1")
    assert bench.client.positions == ["-1"]

    failing = Bench(FakeClient([batches([event(0)], [event(1)])]))

    def down_for_the_first(call: Call) -> Outcome:
        failing.container.failing = 1 if call is failing.worker.calls[0] else 0
        return NOTHING

    failing.worker.behave = down_for_the_first
    await failing.until(lambda: failing.checkpoint() == "1")


def test_the_client_still_has_the_private_methods() -> None:
    """It is not public: a new version may drop it."""
    client = EventHubConsumerClient.from_connection_string(
        "Endpoint=sb://a;SharedAccessKeyName=a;SharedAccessKey=a;EntityPath=h", "g"
    )
    consumer = client._create_consumer("g", "0", "-1", cast("Any", None), owner_level=0, prefetch=1)
    assert callable(consumer.receive)
    assert callable(consumer.close)
    assert client._consumer_group == "g"
