"""What happened to a workflow's tasks in a time: few numbers, which can be added up; and their rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol, Self

from functions.pattern.histogram import Histogram
from functions.pattern.identity import StepName
from functions.pattern.occurrences import Occurrences, StepEnd
from functions.pattern.states import Direction, Outcome, ProcessState

#: Steps that are told apart, by direction, so that it fits into one property; versions may name other steps.
_MOST_STEPS = 100


class Happening(StrEnum):
    """What is counted of tasks."""

    #: Recorded as new.
    ACCEPTED = "accepted"
    #: Came to `Processed`.
    PROCESSED = "processed"
    #: Came to `Compensated`.
    COMPENSATED = "compensated"
    #: Came to `Error`; again, if it comes there again.
    ERROR = "error"
    #: Found overdue by the Supervisor, and given to the next epoch.
    RECOVERED = "recovered"


_ENDS = {
    ProcessState.PROCESSED: Happening.PROCESSED,
    ProcessState.COMPENSATED: Happening.COMPENSATED,
    ProcessState.ERROR: Happening.ERROR,
}
#: What was overtaken, or not begun, says nothing about its Agent.
_COUNTED = frozenset({Outcome.COMPLETED, Outcome.FAILED, Outcome.EXPIRED})


class Period(StrEnum):
    """For how long rows are added up into one."""

    #: A minute; so are new rows, of which each process writes its own.
    MINUTE = "minute"
    #: An hour.
    HOUR = "hour"
    #: A day, in UTC.
    DAY = "day"

    @property
    def length(self) -> timedelta:
        """Tell how long it is."""
        return _LENGTHS[self]

    def start(self, at: datetime) -> datetime:
        """Give the beginning of the one in which a time lies."""
        begun = at.replace(second=0, microsecond=0)
        if self is Period.MINUTE:
            return begun
        begun = begun.replace(minute=0)
        return begun if self is Period.HOUR else begun.replace(hour=0)


_LENGTHS = {
    Period.MINUTE: timedelta(minutes=1),
    Period.HOUR: timedelta(hours=1),
    Period.DAY: timedelta(days=1),
}


@dataclass(slots=True)
class StepTrend:
    """The attempts at one step in one direction, by outcome, and how long they took."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    took: Histogram = field(default_factory=Histogram)

    @property
    def ended(self) -> int:
        """Count the attempts."""
        return self.outcomes.total()

    @property
    def bad(self) -> int:
        """Count those that were refused, or were not over at their complete-by."""
        return self.outcomes[Outcome.FAILED] + self.outcomes[Outcome.EXPIRED]

    def add(self, other: StepTrend) -> None:
        """Add what another has counted."""
        self.outcomes.update(other.outcomes)
        self.took.add(other.took)


@dataclass(slots=True)
class Trend:
    """Counts of tasks, and how long those took that were processed or compensated; the same for steps."""

    counts: Counter[Happening] = field(default_factory=Counter)
    took: Histogram = field(default_factory=Histogram)
    steps: dict[tuple[StepName, Direction], StepTrend] = field(default_factory=dict)

    def count(self, occurred: Occurrences) -> None:
        """Count what a change came to."""
        if occurred.accepted:
            self.counts[Happening.ACCEPTED] += 1
        if occurred.recovered:
            self.counts[Happening.RECOVERED] += 1
        if occurred.end is not None:
            self.counts[_ENDS[occurred.end.state]] += 1
            if occurred.end.state is not ProcessState.ERROR:
                self.took.record(occurred.end.seconds)
        for end in occurred.steps:
            self._count_step(end)

    def _count_step(self, end: StepEnd) -> None:
        step = self._step(end.shape.step, end.direction) if end.outcome in _COUNTED else None
        if step is not None:
            step.outcomes[end.outcome] += 1
            step.took.record(end.seconds)

    def add(self, other: Trend) -> None:
        """Add what another has counted."""
        self.counts.update(other.counts)
        self.took.add(other.took)
        for (name, direction), each in other.steps.items():
            step = self._step(name, direction)
            if step is not None:
                step.add(each)

    def _step(self, name: StepName, direction: Direction) -> StepTrend | None:
        """Find a step; None if there are too many to tell apart."""
        if (name, direction) not in self.steps and len(self.steps) >= _MOST_STEPS:
            return None
        return self.steps.setdefault((name, direction), StepTrend())

    @property
    def written(self) -> bytes:
        """Write it as compact JSON."""
        steps = [
            [name, direction, step.outcomes, step.took.written]
            for (name, direction), step in self.steps.items()
        ]
        facts = [self.counts, self.took.written, steps]
        return json.dumps(facts, separators=(",", ":")).encode()

    @classmethod
    def read(cls, written: bytes) -> Self:
        """Read what `written` gave. Raises `ValueError` for anything else."""
        try:
            counts, took, steps = json.loads(written)
            read = cls(_counted(Happening, counts), Histogram.read(took))
            for name, direction, outcomes, durations in steps:
                step = StepTrend(_counted(Outcome, outcomes), Histogram.read(durations))
                read.steps[StepName(name), Direction(direction)] = step
        except (TypeError, AttributeError) as fault:
            raise ValueError(f"it is no trend ({fault!r})") from None
        return read


def _counted[KindT: StrEnum](kind: type[KindT], counts: dict[str, int]) -> Counter[KindT]:
    return Counter({kind(name): int(count) for name, count in counts.items()})


@dataclass(frozen=True, slots=True, order=True)
class TrendKey:
    """A row of a trend: of which workflow, since when, and whose, or of which period all are added up."""

    workflow: str
    at: datetime
    id: str

    @classmethod
    def of(cls, workflow: str, at: datetime, period: Period) -> Self:
        """Name the one row of a period; it comes before the others of the same time."""
        return cls(workflow, period.start(at), f"!{period}")


@dataclass(frozen=True, slots=True)
class StoredTrend:
    """A row as it was read."""

    key: TrendKey
    trend: Trend


class TrendRows(Protocol):
    """Rows of trends. Each is written once, and is added to another later. Raises `TransientError`."""

    async def insert(self, key: TrendKey, trend: Trend) -> None:
        """Write a new row; harmless when it is repeated."""

    async def since(self, at: datetime) -> Sequence[StoredTrend]:
        """Read the rows of all workflows since a time; what can't be read is logged, and left out."""

    async def keys(self, most: int) -> Sequence[TrendKey]:
        """Read which rows there are, up to `most`."""

    async def condense(self, into: TrendKey, period: Period) -> bool:
        """Add up some rows of a period into one, at once or not at all; tell whether some are left."""

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete up to `most` rows of times before that one; give how many."""
