"""How far the hub is taken: a line for each partition, figures for the overview, and gaps that are there."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from functions.ingestion.lag import HUB_RETENTION, LagReport
from functions.pattern.errors import TransientError
from functions.pattern.hub_positions import Gap, HubPartition
from functions.pattern.shared_rows import Chore
from tests.fakes.clock import FakeClock
from tests.fakes.hub_events import MemoryPositions
from tests.fakes.supervision import RecordedHeartbeats
from tests.fakes.times import MemoryTimes

_FIVE_MINUTES = 300


class Bench:
    """The report over two partitions, and what it tells."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self._caplog = caplog
        self.clock = FakeClock()
        self.positions = MemoryPositions()
        self.heartbeats = RecordedHeartbeats()
        self.gaps: list[Gap] = []
        self.report = LagReport(
            "order-events", self.positions, self.clock, self.heartbeats, MemoryTimes(), self._told
        )

    async def run(self, *partitions: HubPartition, **taken: int) -> list[dict[str, Any]]:
        """Look once; give the facts of each line."""
        self._caplog.clear()
        self.positions.kept = list(partitions)
        self.positions.taken = {name.removeprefix("p"): last for name, last in taken.items()}
        await self.report.run()
        return self.lines

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Give the facts of each line."""
        lines = [each for each in self._caplog.messages if each.startswith("hub lag {")]
        return [json.loads(line.removeprefix("hub lag ")) for line in lines]

    @property
    def figures(self) -> dict[str, Any]:
        """Give what the overview shows."""
        return dict(self.heartbeats.latest_of(Chore.INGESTION))

    async def _told(self, gap: Gap) -> None:
        self.gaps.append(gap)


@pytest.fixture
def bench(caplog: pytest.LogCaptureFixture) -> Bench:
    """Make a report that has not run."""
    return Bench(caplog)


async def test_each_partition_has_a_line(bench: Bench) -> None:
    """One that nobody took anything of, one that is behind, and one that is not."""
    lines = await bench.run(
        HubPartition("0", 0, 9), HubPartition("1", 5, 99), HubPartition("2", 0, -1), p1=89
    )
    assert [(each["partition"], each["checkpoint"], each["waiting"]) for each in lines] == [
        ("0", None, 10),
        ("1", 89, 10),
        ("2", None, 0),
    ]
    figures = bench.figures
    assert (figures["waiting"], figures["partitions"], figures["behind"]) == (20, 3, 2)


async def test_used_part_of_the_retention_grows_while_an_event_waits(bench: Bench) -> None:
    """Whatever came after it; once it is taken, it begins anew."""
    await bench.run(HubPartition("0", 0, 9), p0=9)
    for _ in range(2 * 12 * 24):  # two days
        bench.clock.advance(_FIVE_MINUTES)
        await bench.run(HubPartition("0", 0, 50), p0=9)
    [line] = await bench.run(HubPartition("0", 0, 70), p0=9)
    assert line["retention_used"] == pytest.approx(2 / 7, abs=0.001)
    bench.clock.advance(_FIVE_MINUTES)
    [line] = await bench.run(HubPartition("0", 0, 70), p0=70)
    assert line["retention_used"] == 0


async def test_burst_is_not_taken_for_an_old_lag(bench: Bench) -> None:
    """All that the hub holds waits, but not for long."""
    for _ in range(3 * 24):
        await bench.run(HubPartition("0", 0, 9), p0=9)
        bench.clock.advance(3600)
    [line] = await bench.run(HubPartition("0", 0, 50_000), p0=9)
    assert line["waiting"] == 49_991
    assert line["retention_used"] <= 1 / 20


async def test_samples_stay_few(bench: Bench) -> None:
    """They lie in one row, over all of the retention."""
    for number in range(400):
        await bench.run(*(HubPartition(str(each), 0, number) for each in range(32)))
        bench.clock.advance(3600)
    samples = json.loads(bench.figures["samples"])
    assert 20 <= len(samples) <= 24
    assert len(bench.figures["samples"]) < 30_000
    oldest = bench.clock.now() - timedelta(hours=1) - HUB_RETENTION
    assert samples[0][0] >= oldest.isoformat()


async def test_gap_is_told_once_an_hour(bench: Bench) -> None:
    """As long as the events that are gone come next."""
    dropped = HubPartition("0", 100, 200)
    for _ in range(13):
        await bench.run(dropped, p0=49)
        bench.clock.advance(_FIVE_MINUTES)
    assert bench.gaps == [Gap("0", 50, 99)] * 2
    assert bench.gaps[0].count == 50


async def test_what_is_waiting_begins_where_the_hub_does(bench: Bench) -> None:
    """What is lost does not wait."""
    [line] = await bench.run(HubPartition("0", 100, 200), p0=49)
    assert line["waiting"] == 101


async def test_all_of_a_hub_that_was_made_anew_waits(bench: Bench) -> None:
    """Its numbers begin again, below the checkpoint, from which nothing can be read: operators must know.

    Otherwise nobody looks, until it has grown beyond the checkpoint, and what came before is passed over.
    """
    await bench.run(HubPartition("0", 0, 900), p0=900)
    bench.clock.advance(_FIVE_MINUTES)
    await bench.run(HubPartition("0", 0, -1), p0=900)
    assert bench.figures["waiting"] == 0
    for _ in range(2 * 12 * 24):  # two days
        bench.clock.advance(_FIVE_MINUTES)
        [line] = await bench.run(HubPartition("0", 0, 5), p0=900)
        assert (line["checkpoint"], line["waiting"]) == (900, 6)
    assert line["retention_used"] == pytest.approx(2 / 7, abs=1 / 20)
    assert bench.gaps == []


@pytest.mark.parametrize(
    "samples", ["{", "3", '[["never", {}]]', '[["2026-11-21T12:00:00", {}]]', "[[1]]", 5]
)
async def test_damaged_figures_are_as_good_as_none(bench: Bench, samples: object) -> None:
    """Otherwise no line is logged any more, of any partition, and no alert comes of it."""
    await bench.heartbeats.beat(Chore.INGESTION, {"samples": samples})
    [line] = await bench.run(HubPartition("0", 0, 9), p0=4)
    assert line["waiting"] == 5
    assert len(json.loads(bench.figures["samples"])) == 1


async def test_lines_are_logged_while_the_state_store_does_not_answer(bench: Bench) -> None:
    """That is when all partitions stand still: the alert comes of these lines."""
    bench.heartbeats.unread = TransientError("Table Storage: ServiceRequestError")
    bench.heartbeats.failure = bench.heartbeats.unread
    bench.positions.kept = [HubPartition("0", 0, 9)]
    with pytest.raises(TransientError):
        await bench.report.run()
    assert [each["waiting"] for each in bench.lines] == [10]


async def test_hub_that_cannot_be_reached_leaves_the_figures(bench: Bench) -> None:
    """They tell how old they are."""
    await bench.run(HubPartition("0", 0, 9))
    figures = bench.figures
    bench.positions.failing = True
    with pytest.raises(TransientError):
        await bench.report.run()
    assert bench.figures == figures
