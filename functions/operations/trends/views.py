"""Trends as they are shown: counts and percentiles by time, by workflow and by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel

from functions.pattern.histogram import Histogram
from functions.pattern.identity import StepName
from functions.pattern.states import Direction, Outcome
from functions.pattern.trends import Happening, Period, StepTrend, StoredTrend, Trend

_P50, _P99 = 0.5, 0.99
#: Digits of a percentile that are shown; it is within 10 %.
_DIGITS = 2


class Over(StrEnum):
    """Over which time trends are shown."""

    #: Sixty minutes, the last of which still runs.
    HOUR = "hour"
    #: Twenty-four hours.
    DAY = "day"
    #: Thirty days, in UTC.
    MONTH = "month"

    @property
    def period(self) -> Period:
        """Tell of what length its points are."""
        return _POINTS[self][0]

    def points(self, now: datetime) -> Sequence[datetime]:
        """Give the times at which its points begin."""
        period, count = _POINTS[self]
        last = period.start(now)
        return [last - number * period.length for number in reversed(range(count))]


_POINTS = {Over.HOUR: (Period.MINUTE, 60), Over.DAY: (Period.HOUR, 24), Over.MONTH: (Period.DAY, 30)}


class TaskCounts(BaseModel):
    """How many tasks were accepted or came to their end, and how often the Supervisor recovered one.

    `p50` and `p99` are seconds from submission to `Processed` or `Compensated`, within 10 %; null where
    none came there.
    """

    accepted: int
    processed: int
    compensated: int
    error: int
    recovered: int
    p50: float | None
    p99: float | None


class Point(TaskCounts):
    """What happened in the minute, hour or day (UTC) that began `at` that time."""

    at: datetime


class StepLine(BaseModel):
    """The attempts at a step in one direction, by outcome, and the seconds from dispatch to outcome."""

    step: StepName
    direction: Direction
    completed: int
    failed: int
    expired: int
    p50: float | None
    p99: float | None


class WorkflowTrend(TaskCounts):
    """What happened to the tasks of one workflow."""

    workflow: str
    steps: list[StepLine]


class Trends(BaseModel):
    """What happened up to `at`, point by point, of one workflow or all, and by workflow.

    The last minute or two may be missing: each process writes down what it has counted once a minute.
    """

    at: datetime
    over: Over
    points: list[Point]
    workflows: list[WorkflowTrend]


def trends(rows: Iterable[StoredTrend], over: Over, now: datetime, workflow: str | None) -> Trends:
    """Add up rows for each point, of one workflow or of all, and for each workflow."""
    points = {at: Trend() for at in over.points(now)}
    workflows: dict[str, Trend] = {}
    for row in rows:
        point = points.get(over.period.start(row.key.at))
        if point is not None:
            workflows.setdefault(row.key.workflow, Trend()).add(row.trend)
            if workflow in {None, row.key.workflow}:
                point.add(row.trend)
    return Trends(
        at=now,
        over=over,
        points=[Point(at=at, **_counts(trend)) for at, trend in points.items()],
        workflows=[
            WorkflowTrend(workflow=name, steps=_lines(trend), **_counts(trend))
            for name, trend in sorted(workflows.items())
        ],
    )


def percentile(took: Histogram, part: float) -> float | None:
    """Give a percentile with as many digits as it has."""
    found = took.quantile(part)
    return None if found is None else float(f"{found:.{_DIGITS}g}")


def median(step: StepTrend) -> float | None:
    """Give the median of a step's attempts."""
    return percentile(step.took, _P50)


def _counts(trend: Trend) -> dict[str, float | None]:
    counts = {happening.value: trend.counts[happening] for happening in Happening}
    return {**counts, "p50": percentile(trend.took, _P50), "p99": percentile(trend.took, _P99)}


def _lines(trend: Trend) -> list[StepLine]:
    return [
        StepLine(
            step=name,
            direction=direction,
            completed=step.outcomes[Outcome.COMPLETED],
            failed=step.outcomes[Outcome.FAILED],
            expired=step.outcomes[Outcome.EXPIRED],
            p50=median(step),
            p99=percentile(step.took, _P99),
        )
        for (name, direction), step in sorted(trend.steps.items())
    ]
