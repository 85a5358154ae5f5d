"""Orders of an event hub: poison, two ways at once, and a second host that takes partitions away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from local.platform import PartName
from tests.e2e.caller import rejected
from tests.e2e.hub.bench import HubBench, another_host, running
from tests.e2e.hub.letters import letter
from tests.e2e.hub.senders import send_until_accepted

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
    # The clients do not close sockets whose connection was cut.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HubBench]:
    """Run one platform for all tests; each has its own orders."""
    async with running(tmp_path_factory.mktemp("hub")) as bench:
        yield bench


async def test_poison_event_is_set_aside_and_its_neighbours_go_on(bench: HubBench) -> None:
    """Wherever it is in its batch, by its place in the hub."""
    good = [f"neighbour-{number}" for number in range(2)]
    bodies = [letter(task).body for task in good]
    await bench.send("1", b"\xff", bodies[0], b'{"task_id": "half"', bodies[1], b"[]")
    await bench.until_processed(good)
    found = await rejected(bench.platform)
    assert {each["queue"] for each in found} == {"eventhub|order-events"}
    first, *others = sorted(int(each["message_id"].removeprefix("1/")) for each in found)
    assert others == [first + 2, first + 4]


async def test_orders_that_come_by_queue_and_hub_at_once_are_one_task_each(bench: HubBench) -> None:
    """The same 200 by both ways; the second copy of each is known, and not rejected."""
    before = len(await rejected(bench.platform))
    messages = [letter(f"twice-{number}") for number in range(200)]
    by_queue, _ = await asyncio.gather(
        bench.senders.queue.submit(messages), send_until_accepted(bench.senders.hub, messages[::-1])
    )
    assert by_queue == [None] * 200
    evidence = await bench.until_processed([each.task_id for each in messages])
    assert len([task for task in evidence.orders if task.startswith("twice-")]) == 200
    assert evidence.rejected == before


async def test_partitions_taken_by_a_second_host_that_dies_lose_and_double_nothing(bench: HubBench) -> None:
    """Each takes them from the other every second, also in a batch, until the second one is killed."""
    before = len(await rejected(bench.platform))
    tasks = [f"stolen-{number}" for number in range(600)]
    folder = bench.app.parent / "second"
    async with another_host(folder, bench.settings, bench.app) as second:
        for first in range(0, len(tasks), 100):
            await send_until_accepted(bench.senders.hub, map(letter, tasks[first : first + 100]))
            await asyncio.sleep(0.5)
        await second.kill(PartName.HOST)
        evidence = await bench.until_processed(tasks)
    assert len([task for task in evidence.states if task.startswith("stolen-")]) == len(tasks)
    assert evidence.rejected == before
