"""How many overdue tasks a sweep has found; told as long as it is news.

Another instance may sweep next: one that leads no more must not go on telling what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

from opentelemetry.metrics import CallbackOptions, Observation

from functions.telemetry.instruments import METER

#: Seconds for which a figure is told: metrics are exported each minute, sweeps come at least as often.
_IS_NEWS = 120


class Overdue:
    """What this instance's last sweep found; `now` is in seconds."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._found: tuple[int, float] | None = None

    def set(self, tasks: int) -> None:
        """Take what a sweep has found."""
        self._found = (tasks, self._now())

    def read(self, _: CallbackOptions) -> Iterable[Observation]:
        """Tell it, unless it is old."""
        if self._found is None:
            return []
        tasks, at = self._found
        return [Observation(tasks)] if self._now() - at <= _IS_NEWS else []


OVERDUE = Overdue()
METER.create_observable_gauge("tasks.overdue", [OVERDUE.read], "{task}", "Overdue tasks that a sweep found")
