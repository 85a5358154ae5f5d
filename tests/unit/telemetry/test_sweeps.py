"""A sweep is measured, and what it decides is known to the epoch that follows."""

from __future__ import annotations

from opentelemetry.metrics import CallbackOptions, Observation

from functions.telemetry.overdue import Overdue
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE, TASK
from tests.unit.supervisor.bench import Bench
from tests.unit.telemetry.conftest import Measured, Spans, parent_of, series, traceparent_of


async def test_sweep_is_measured(measured: Measured) -> None:
    """How long it took and how many tasks it found overdue; none is a number, too."""
    bench = Bench()
    await bench.sweep()
    assert measured.take() == {series("sweep.duration"): 0}
    assert measured.levels()[series("tasks.overdue")] == 0
    bench.store.put(pending(LINE))
    bench.clock.advance(36)
    await bench.sweep()
    assert measured.levels()[series("tasks.overdue")] == 1


def test_figure_of_a_former_leader_is_told_no_more() -> None:
    """Another instance sweeps now, and knows better."""
    seconds = 0.0
    overdue = Overdue(lambda: seconds)
    assert overdue.read(CallbackOptions()) == []
    overdue.set(5)
    seconds = 120
    assert overdue.read(CallbackOptions()) == [Observation(5)]
    seconds = 121
    assert overdue.read(CallbackOptions()) == []


async def test_recovered_epoch_knows_the_supervisors_span(spans: Spans) -> None:
    """It is recorded with the epoch that ends, so that no message can lose it."""
    bench = Bench()
    bench.store.put(pending(LINE))
    bench.clock.advance(36)
    await bench.sweep()
    recovery = spans.one("recover")
    assert bench.store.record(TASK).history[-1].traceparent == traceparent_of(recovery)
    assert parent_of(recovery) == traceparent_of(spans.one("supervisor sweep"))[36:52]


async def test_follower_measures_nothing(measured: Measured, spans: Spans) -> None:
    """Only the leader sweeps."""
    bench = Bench()
    await bench.supervisor._lease.take()
    await bench.rival("two").run()
    assert (measured.take(), spans.all()) == ({}, ())
