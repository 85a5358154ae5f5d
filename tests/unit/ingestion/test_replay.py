"""A replay changes nothing: the store knows each order."""

from __future__ import annotations

from datetime import timedelta

from functions.pattern.identity import TaskId
from tests.fakes.clock import START
from tests.fakes.hub_events import batch
from tests.fakes.tasks import FIRST, claimed, told
from tests.unit.ingestion.bench import Bench, order


def _begin(bench: Bench, *tasks: str) -> None:
    """Have Schedulers claim tasks."""
    for each in map(TaskId, tasks):
        bench.store.put(told(bench.store.record(each), claimed(task=each)))


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
    """A crash may have kept it from being started; the start of an instance that is there does nothing."""
    sent = batch(order("a"), enqueued_at=bench.clock.now() - timedelta(hours=5))
    for starts in (1, 2):
        bench.restart()
        await bench.take(sent)
        assert bench.schedulers.started == [("a", FIRST)] * starts


async def test_known_order_with_other_content_is_set_aside(bench: Bench) -> None:
    """The order that was recorded first stays."""
    await bench.take(batch(order("a", weight=1)))
    bench.restart()
    await bench.take(batch(order("a", weight=2), enqueued_at=START))
    assert [each.reason for each in bench.rejected.all] == ["other content is known as a"]


async def test_order_whose_row_cannot_be_read_holds_up_no_other(bench: Bench) -> None:
    """A batch that fails is tried again for ever: its partition would stand still."""
    await bench.take(batch(order("a")))
    bench.restart()
    bench.store.damaged = {TaskId("a")}
    await bench.take(batch(order("a"), order("b"), first=0))
    assert bench.store.record(TaskId("b")).task.epoch == FIRST
