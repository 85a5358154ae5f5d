"""All metrics: their names and units (`docs/telemetry.md`), and the gauges that are read at each export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter

from functions.pattern.breaker import BreakerState
from functions.telemetry.fields import Field

METER = get_meter("functions")

#: Bounds of histograms, in seconds: from a remote call to an order that waits for hours.
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400)

SUBMITTED = METER.create_counter("tasks.submitted", "{task}", "Orders recorded as tasks")
PROCESSED = METER.create_counter("tasks.processed", "{task}", "Tasks of which every step is done")
COMPENSATED = METER.create_counter("tasks.compensated", "{task}", "Tasks of which everything is undone")
ERRORS = METER.create_counter("tasks.errors", "{task}", "Tasks that came to wait for an operator")
RECOVERIES = METER.create_counter("tasks.recoveries", "{recovery}", "Tasks given to the next epoch")
TASK_DURATION = METER.create_histogram(
    "task.duration", "s", "From submission to the end", explicit_bucket_boundaries_advisory=_SECONDS
)
STEP_DURATION = METER.create_histogram(
    "step.duration", "s", "From dispatch to the outcome", explicit_bucket_boundaries_advisory=_SECONDS
)
RETRIES = METER.create_counter("remote.retries", "{call}", "Calls of remote services made again")
FORGED_REPLIES = METER.create_counter(
    "replies.wrong_token", "{reply}", "Replies with another token than their request's"
)
EVENTS = METER.create_counter("events.taken", "{event}", "Events of the hub that are recorded or rejected")
EVENT_AGE = METER.create_histogram(
    "events.age",
    "s",
    "How long a batch's oldest event has waited",
    explicit_bucket_boundaries_advisory=_SECONDS,
)
SWEEP_DURATION = METER.create_histogram(
    "sweep.duration", "s", "The Supervisor's sweeps", explicit_bucket_boundaries_advisory=_SECONDS
)

_LEVELS = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}


def observe_breakers(states: Callable[[], Mapping[str, BreakerState]], meter: Meter = METER) -> None:
    """Measure the circuits' states, which any thread may read, by service; a meter takes one call."""

    def read(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(_LEVELS[state], {Field.SERVICE: name}) for name, state in states().items()]

    meter.create_observable_gauge("breaker.state", [read], "1", "0 closed, 1 half-open, 2 open")


class LatestFigure:
    """A chore's latest figure, exported for `current_for` seconds: another instance may run it next."""

    def __init__(self, current_for: float, now: Callable[[], float] = monotonic) -> None:
        self._current_for = current_for
        self._now = now
        self._found: tuple[float, float] | None = None

    def set(self, figure: float) -> None:
        """Record what a run has found."""
        self._found = (figure, self._now())

    def read(self, _: CallbackOptions) -> Iterable[Observation]:
        """Give it, unless it is old."""
        if self._found is None:
            return []
        figure, at = self._found
        return [Observation(figure)] if self._now() - at <= self._current_for else []


# Metrics are exported each minute, sweeps come at least as often, and housekeeping every five minutes.
OVERDUE, RETENTION_BEHIND = LatestFigure(current_for=120), LatestFigure(current_for=600)
METER.create_observable_gauge("tasks.overdue", [OVERDUE.read], "{task}", "Overdue tasks that a sweep found")
METER.create_observable_gauge(
    "retention.behind", [RETENTION_BEHIND.read], "s", "How long past its retention the oldest purged task was"
)
