"""What was taken before changes nothing: it is looked up where that is likely, and writes nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from tests.fakes.clock import START
from tests.fakes.hub_events import batch
from tests.fakes.tasks import FIRST, claimed, told
from tests.unit.ingestion.bench import Bench, order


def _begin(bench: Bench, *tasks: str) -> None:
    """Have Schedulers claim tasks."""
    for each in map(TaskId, tasks):
        bench.store.put(told(bench.store.record(each), claimed(task=each)))


async def test_first_batch_of_a_process_is_looked_up(bench: Bench) -> None:
    """It may have been at work when the process before was killed: only what is absent is admitted."""
    await bench.take(batch(order("a"), order("b")))
    bench.restart()
    bench.store.admitted.clear()
    await bench.take(batch(order("a"), order("b"), order("c"), first=0))
    assert bench.store.admitted == ["c"]


async def test_batches_of_new_orders_are_not_looked_up(bench: Bench) -> None:
    """After the first: an order then costs what it costs from the queue."""
    await bench.take(batch(order("a")))
    _begin(bench, "a")
    bench.store.looked_up.clear()
    await bench.take(batch(order("b"), first=1))
    await bench.take(batch(order("c"), partition="4"))
    assert bench.store.looked_up == ["c"]


async def test_batch_after_a_known_order_is_looked_up(bench: Bench) -> None:
    """For as long as the replay lasts."""
    await bench.take(batch(order("a")))
    _begin(bench, "a")
    await bench.take(batch(order("a"), first=1))
    bench.store.looked_up.clear()
    bench.store.admitted.clear()
    await bench.take(batch(order("a"), first=2))
    await bench.take(batch(order("b"), first=3))
    _begin(bench, "b")
    await bench.take(batch(order("c"), first=4))
    assert bench.store.looked_up == ["a", "b"]
    assert bench.store.admitted == ["b", "c"]


@pytest.mark.usefixtures("impatient")
async def test_batch_that_comes_again_is_looked_up(bench: Bench) -> None:
    """A part of it was recorded when the other failed."""
    await bench.take(batch(order("a")))
    _begin(bench, "a")
    bench.store.looked_up.clear()
    bench.store.faults[TaskId("c")] = TransientError("down")
    with pytest.raises(ExceptionGroup):
        await bench.take(batch(order("b"), order("c"), first=1))
    assert bench.store.looked_up == []
    bench.store.faults = {}
    await bench.take(batch(order("b"), order("c"), first=1))
    assert set(bench.store.looked_up) == {"b", "c"}


async def test_replay_writes_and_starts_nothing(bench: Bench) -> None:
    """All of them have begun."""
    events = [batch(order("a"), order("b")), batch(order("c"), first=2)]
    for each in events:
        await bench.take(each)
    _begin(bench, "a", "b", "c")
    bench.restart()
    writes, starts = bench.store.writes, [*bench.schedulers.started]
    for each in events:
        await bench.take(each)
    assert (bench.store.writes, bench.schedulers.started) == (writes, starts)


async def test_known_order_that_nobody_began_gets_its_scheduler(bench: Bench) -> None:
    """A crash may have kept it from being started; of older ones the Supervisor takes care."""
    await bench.take(batch(order("a")))
    for later, starts in ((119, 2), (1, 2)):
        bench.clock.advance(later)
        bench.restart()
        await bench.take(batch(order("a")))
        assert bench.schedulers.started == [("a", FIRST)] * starts


async def test_order_that_waited_in_the_hub_gets_its_scheduler_after_a_crash(bench: Bench) -> None:
    """Recent is what was recorded just now, however long ago it was sent."""
    sent = batch(order("a"), enqueued_at=bench.clock.now() - timedelta(hours=5))
    for starts in (1, 2):
        bench.restart()
        await bench.take(sent)
        assert bench.schedulers.started == [("a", FIRST)] * starts


async def test_known_order_with_other_content_is_set_aside(bench: Bench) -> None:
    """Also when it is looked up: the first recorded wins."""
    await bench.take(batch(order("a", weight=1)))
    bench.restart()
    await bench.take(batch(order("a", weight=2), enqueued_at=START))
    assert [each.reason for each in bench.rejected.all] == ["other content is known as a"]


async def test_order_that_cannot_be_looked_up_is_left_to_its_admission(bench: Bench) -> None:
    """That decides in any case."""
    await bench.take(batch(order("a")))
    bench.restart()
    bench.store.order = _silent  # type: ignore[method-assign] # only the look fails
    await bench.take(batch(order("a"), order("b")))
    assert (len(bench.store), bench.store.writes) == (2, 2)


async def _silent(task: TaskId) -> None:
    raise TransientError(f"Table Storage: {task}")


async def test_order_whose_row_cannot_be_read_holds_up_no_other(bench: Bench) -> None:
    """A batch that fails is tried again for ever: its partition would stand still."""
    await bench.take(batch(order("a")))
    bench.restart()
    bench.store.damaged = {TaskId("a")}
    await bench.take(batch(order("a"), order("b"), first=0))
    assert bench.store.record(TaskId("b")).task.epoch == FIRST
