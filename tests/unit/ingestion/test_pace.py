"""A partition's next batch waits until Schedulers have begun with the one before, but not for ever."""

from __future__ import annotations

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from tests.fakes.clock import START
from tests.fakes.hub_events import batch
from tests.fakes.tasks import claimed, told
from tests.unit.ingestion.bench import Bench, order


def _seconds(bench: Bench) -> float:
    return (bench.clock.now() - START).total_seconds()


async def test_batch_waits_while_nothing_has_begun(bench: Bench) -> None:
    """As long as a Scheduler may take, and no longer: a dead one slows, it never stops."""
    await bench.take(batch(order("a")))
    assert _seconds(bench) == 0
    await bench.take(batch(order("b"), first=1))
    assert _seconds(bench) == 60
    assert len(bench.store) == 2


async def test_batch_goes_on_once_one_has_begun(bench: Bench) -> None:
    """It looks soon at first, then every two seconds."""
    await bench.take(batch(*map(order, "abcdefg")))
    looks = 0
    whether = bench.store.awaits_first_turn

    async def claimed_at_last(task: TaskId) -> bool:
        nonlocal looks
        looks += 1
        if _seconds(bench) >= 5:
            bench.store.put(told(bench.store.record(TaskId("d")), claimed(task=TaskId("d"))))
        return await whether(task)

    bench.store.awaits_first_turn = claimed_at_last  # type: ignore[method-assign] # it begins meanwhile
    await bench.take(batch(order("z"), first=7))
    assert _seconds(bench) == 0.25 + 0.5 + 1 + 2 + 2
    assert looks == 3 * 6


async def test_other_partitions_do_not_wait(bench: Bench) -> None:
    """Each has its own pace."""
    await bench.take(batch(order("a"), partition="1"))
    await bench.take(batch(order("b"), partition="2"))
    assert _seconds(bench) == 0


async def test_batch_that_recorded_nothing_holds_nothing_back(bench: Bench) -> None:
    """A replay is not slowed down by what was recorded long ago."""
    await bench.take(batch(order("a")))
    bench.restart()
    await bench.take(batch(order("a")))
    await bench.take(batch(b"{", first=1))
    assert _seconds(bench) == 0


@pytest.mark.usefixtures("impatient")
async def test_batch_waits_once(bench: Bench) -> None:
    """When it comes again after a fault, it goes on at once."""
    await bench.take(batch(order("a")))
    bench.store.faults[TaskId("b")] = TransientError("down")
    for _ in range(2):
        try:
            await bench.take(batch(order("b"), first=1))
        except ExceptionGroup:
            bench.store.faults = {}
    assert _seconds(bench) == 60


async def test_task_that_is_gone_has_begun(bench: Bench) -> None:
    """It was deleted, or undone."""
    await bench.take(batch(order("a")))
    bench.store.remove(TaskId("a"))
    await bench.take(batch(order("b"), first=1))
    assert _seconds(bench) == 0


async def test_store_that_does_not_answer_is_waited_for(bench: Bench) -> None:
    """It is not known that anything has begun."""
    await bench.take(batch(order("a")))

    async def silent(task: TaskId) -> bool:
        raise TransientError(f"Table Storage: {task}")

    bench.store.awaits_first_turn = silent  # type: ignore[method-assign] # only the look fails
    await bench.take(batch(order("b"), first=1))
    assert _seconds(bench) == 60
