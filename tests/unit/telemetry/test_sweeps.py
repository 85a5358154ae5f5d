"""A sweep is measured, and what it decides is known to the epoch that follows."""

from __future__ import annotations

from opentelemetry.metrics import CallbackOptions, Observation

from functions.telemetry.instruments import LatestFigure
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


def test_old_figure_is_not_exported() -> None:
    """Another instance sweeps now, and knows better."""
    seconds = 0.0
    overdue = LatestFigure(120, lambda: seconds)
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
