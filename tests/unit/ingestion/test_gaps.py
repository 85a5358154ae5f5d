"""What the hub has dropped unread is found, and told with its bounds."""

from __future__ import annotations

from functions.operations.alerts.alerts import Facts
from tests.fakes.hub_events import batch
from tests.unit.ingestion.bench import Bench


def _gaps(bench: Bench) -> list[Facts]:
    return [each.facts for each in bench.alerts if each.event == "events lost"]


async def test_gap_between_batches_is_alerted(bench: Bench) -> None:
    """Its first and its last number, both lost."""
    bench.positions.taken["3"] = 1
    await bench.take(batch(b"{", b"{", first=0))
    await bench.take(batch(b"{", first=12))
    [gap] = _gaps(bench)
    assert gap == {"hub": "order-events", "partition": "3", "first": 2, "last": 11, "count": 10}


async def test_gap_before_the_first_batch_is_found_by_the_checkpoint(bench: Bench) -> None:
    """It still holds the old number while the first batch is at work."""
    bench.positions.taken["3"] = 99
    await bench.take(batch(b"{", first=350))
    assert [(gap["first"], gap["last"], gap["count"]) for gap in _gaps(bench)] == [(100, 349, 250)]


async def test_first_batch_of_all_has_no_gap(bench: Bench) -> None:
    """Without a checkpoint nobody knows what there was."""
    await bench.take(batch(b"{", first=350))
    assert _gaps(bench) == []


async def test_what_another_instance_took_is_no_gap(bench: Bench) -> None:
    """The partition was there meanwhile, and has come back: its checkpoint tells."""
    await bench.take(batch(b"{", first=0))
    bench.positions.taken["3"] = 49
    await bench.take(batch(b"{", first=50))
    assert _gaps(bench) == []


async def test_replays_and_hubs_made_anew_are_no_gaps(bench: Bench) -> None:
    """Numbers that come again, or begin at 0 again."""
    bench.positions.taken["3"] = 99
    for first in (100, 101, 100, 0, 1):
        await bench.take(batch(b"{", first=first))
    assert _gaps(bench) == []


async def test_batches_that_follow_each_other_need_no_checkpoint(bench: Bench) -> None:
    """It is read once for each partition."""
    for first in range(5):
        await bench.take(batch(b"{", first=first))
    assert bench.positions.reads == 1


async def test_checkpoint_that_cannot_be_read_holds_no_batch(bench: Bench) -> None:
    """The timer finds the gap as long as it is there."""
    bench.positions.failing = True
    await bench.take(batch(b"{", first=5))
    assert len(bench.rejected.all) == 1
