"""Measures what became of a batch of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from functions.telemetry import instruments
from functions.telemetry.fields import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFigures:
    """The outcome of each event, and in seconds the `age` of the oldest and how long all were `paced`."""

    outcomes: Sequence[str]
    age: float
    paced: float


def measure_batch(source: str, figures: BatchFigures) -> None:
    """Count and measure a batch of one hub."""
    of_source = {Field.QUEUE.value: source}
    for outcome, count in Counter(figures.outcomes).items():
        instruments.EVENTS.add(count, {**of_source, Field.OUTCOME.value: str(outcome)})
    instruments.EVENT_AGE.record(figures.age, of_source)
    instruments.EVENTS_PACED.record(figures.paced, of_source)
