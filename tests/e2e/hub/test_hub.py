"""Orders of an event hub: poison, two ways at once, and a second host that takes partitions away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import batched
from pathlib import Path

import pytest
import pytest_asyncio
from azure.eventhub import EventData

from local.platform import PartName
from tests.e2e.caller import rejected
from tests.e2e.hub.bench import HubBench, running

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
    # The clients do not close sockets whose connection was cut.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

#: Hosts take each other's partitions each second, and what a dead one leaves is recovered in seconds.
_SETTINGS = {
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SKEW_SECONDS": "0.5",
    "PICK_UP_SECONDS": "10",
    "STEP_SECONDS": "letters.post=5",
    "AzureFunctionsJobHost__extensions__eventHubs__loadBalancingUpdateInterval": "00:00:01",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HubBench]:
    """Run one platform for all tests; each has its own orders."""
    async with running(tmp_path_factory.mktemp("hub"), _SETTINGS) as bench:
        yield bench


async def test_poison_event_is_set_aside_and_its_neighbours_go_on(bench: HubBench) -> None:
    """Wherever it is in its batch, by its place in the hub."""
    first, second = (each.body for each in bench.letters("neighbour", 2))
    bodies = (b"\xff", first, b'{"task_id": "half"', second, b"[]")
    await bench.hub.send_batch([EventData(body) for body in bodies], partition_id="1")
    await bench.until_processed()
    found = await rejected(bench.platform)
    assert {each["queue"] for each in found} == {"eventhub|order-events"}
    place, *others = sorted(int(each["message_id"].removeprefix("1/")) for each in found)
    assert others == [place + 2, place + 4]


async def test_orders_that_come_by_queue_and_hub_at_once_are_one_task_each(bench: HubBench) -> None:
    """The same 200 by both ways; the second copy of each is known, and not rejected."""
    before, messages = len(await rejected(bench.platform)), bench.letters("twice", 200)
    by_queue, _ = await asyncio.gather(bench.queue.submit(messages), bench.send(messages[::-1]))
    assert by_queue == [None] * 200
    await bench.until_processed()
    assert len(await rejected(bench.platform)) == before


async def test_partitions_taken_by_a_second_host_that_dies_lose_and_double_nothing(
    bench: HubBench, tmp_path: Path
) -> None:
    """Each takes them from the other every second, also in a batch, until the second one is killed."""
    before = len(await rejected(bench.platform))
    async with bench.another_host(tmp_path) as second:
        for orders in batched(bench.letters("stolen", 600), 100, strict=True):
            await bench.send(orders)
            await asyncio.sleep(0.5)
        await second.kill(PartName.HOST)
        await bench.until_processed()
    assert len(await rejected(bench.platform)) == before
