"""Poison, two ways at once, and a second host that takes partitions away: what the hub's orders bear."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from local import checkpoints
from local.platform import PartName
from tests.e2e.fleet.second_host import another_host
from tests.e2e.hub.bench import HubBench, running
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
    bodies = [letter(task).written for task in good]
    await bench.send("1", b"\xff", bodies[0], b'{"task_id": "half"', bodies[1], b"[]")
    await bench.until_processed(good)
    found = await bench.rejected()
    assert {row["Queue"] for row in found} == {"eventhub|order-events"}
    first, *others = sorted(int(row["MessageID"].removeprefix("1/")) for row in found)
    assert others == [first + 2, first + 4]


async def test_event_that_carries_more_than_a_queue_takes_holds_up_no_other(bench: HubBench) -> None:
    """Its version is not deployed here, so it waits on the queue."""
    waits, good = {**json.loads(letter("waits").written), "version": 9}, letter("behind-it")
    await bench.send("2", json.dumps(waits).encode(), note="x" * 300_000)
    await bench.send("2", good.written)
    await bench.until_processed([good.task_id])
    assert not [row for row in await bench.rejected() if row["MessageID"].startswith("2/")]


async def test_positions_of_a_hub_that_is_read_are_shown_and_not_moved(
    bench: HubBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads would write its own over them."""
    looked_at = letter("looked-at")
    await bench.send("1", looked_at.written)
    await bench.until_processed([looked_at.task_id])  # so the partition is read by now
    for name, value in bench.settings.items():
        monkeypatch.setenv(name, value)
    assert await asyncio.to_thread(checkpoints.main, []) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 4
    for arguments, refusal in (
        (["1", "start"], "partition 1 is read by an instance"),
        (["9", "start"], "no partition '9'"),
        (["all", "99999"], "beyond the end"),
    ):
        assert await asyncio.to_thread(checkpoints.main, arguments) == 2
        assert refusal in capsys.readouterr().err


async def test_orders_that_come_by_queue_and_hub_at_once_are_one_task_each(bench: HubBench) -> None:
    """The same 200 by both ways; the other way's are known, not set aside."""
    before = len(await bench.rejected())
    messages = [letter(f"twice-{number}") for number in range(200)]
    results = await asyncio.gather(
        bench.senders.queue.submit_all(messages), bench.senders.hub.submit_all(messages[::-1])
    )
    assert [error for each in results for error in each if error is not None] == []
    evidence = await bench.until_processed([each.task_id for each in messages])
    assert len([task for task in evidence.orders if task.startswith("twice-")]) == 200
    assert evidence.rejected == before


async def test_partitions_taken_by_a_second_host_that_dies_lose_and_double_nothing(bench: HubBench) -> None:
    """Each takes them from the other every second, also in a batch, until the second one is killed."""
    before = len(await bench.rejected())
    tasks = [f"stolen-{number}" for number in range(600)]
    folder = bench.app.parent / "second"
    async with another_host(folder, bench.settings, app=bench.app) as second:
        for first in range(0, len(tasks), 100):
            await send_until_accepted(bench.senders.hub, tasks[first : first + 100])
            await asyncio.sleep(0.5)
        await second.kill(PartName.HOST)
        evidence = await bench.until_processed(tasks)
    assert len([task for task in evidence.states if task.startswith("stolen-")]) == len(tasks)
    assert evidence.rejected == before
