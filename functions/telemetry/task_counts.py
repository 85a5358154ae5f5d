"""Counts of tasks and steps, made when a change is written. Times are UTC.

A crash between the write of a change and its count loses the count.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from random import random

from functions.core.derive import ProcessState, final_state
from functions.core.record import WAITING_TYPES, Attempt, Direction, EpochEnd, StepSpec, TaskRecord
from functions.telemetry import instruments
from functions.telemetry.instruments import Facts, Field
from functions.telemetry.spans import attributes

_log = logging.getLogger(__name__)

#: Rows that cannot be written are kept for this time: the console shows one hour.
_KEPT_FOR = timedelta(hours=1)
#: Seconds over which the processes spread their writes after a minute.
_SPREAD_SECONDS = 10


class TaskCounter(StrEnum):
    """A counter of tasks: the console shows it by the minute, and OpenTelemetry exports it."""

    #: Orders recorded as tasks.
    ACCEPTED = "accepted"
    #: Tasks that reached `Processed`.
    PROCESSED = "processed"
    #: Tasks that reached `Compensated`.
    COMPENSATED = "compensated"
    #: Entries of tasks into `Error`.
    ERROR = "error"
    #: Recoveries of overdue tasks by the Supervisor.
    RECOVERED = "recovered"


_INSTRUMENTS = {
    TaskCounter.ACCEPTED: instruments.SUBMITTED,
    TaskCounter.PROCESSED: instruments.PROCESSED,
    TaskCounter.COMPENSATED: instruments.COMPENSATED,
    TaskCounter.ERROR: instruments.ERRORS,
    TaskCounter.RECOVERED: instruments.RECOVERIES,
}
_ENDS = {
    ProcessState.PROCESSED: TaskCounter.PROCESSED,
    ProcessState.COMPENSATED: TaskCounter.COMPENSATED,
    ProcessState.ERROR: TaskCounter.ERROR,
}

#: Writes the counts of a minute under the id of a row; a repeated write replaces the row.
type WriteCounts = Callable[[datetime, str, Mapping[TaskCounter, int]], Awaitable[None]]


@dataclass(slots=True)
class _Row:
    minute: datetime
    id: str
    counts: Counter[TaskCounter] = field(default_factory=Counter)


class TaskCounts:
    """Counts changes by workflow for OpenTelemetry, and by the minute for the console.

    The counts of a minute are in memory until its row is written; a process that ends loses them. `now`
    returns the time (UTC), `new_id` the id of a row.
    """

    def __init__(self, write: WriteCounts, *, now: Callable[[], datetime], new_id: Callable[[], str]) -> None:
        self._write_counts, self._now, self._new_id = write, now, new_id
        self._rows: list[_Row] = []
        self._writing: asyncio.Task[None] | None = None

    def count(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Count a written change; `before` is None for a new task, `after` has the closed epochs."""
        workflow = {Field.WORKFLOW.value: after.order.workflow}
        for counter in _counters(before, after):
            _INSTRUMENTS[counter].add(1, workflow)
            self.increment(counter)
        if after.finished_at is not None and _has_ended(before, after):
            seconds = (after.finished_at - after.order.submitted_at).total_seconds()
            ended = {**workflow, Field.STATE.value: final_state(after).value}
            instruments.TASK_DURATION.record(max(0.0, seconds), ended)
        for spec, direction, attempt in _ended_attempts(before, after):
            facts: Facts = {
                Field.AGENT: spec.agent,
                Field.OUTCOME: attempt.outcome,
                Field.DIRECTION: direction.value,
            }
            # The clocks of two instances may differ.
            instruments.STEP_DURATION.record(max(0.0, attempt.seconds), attributes(facts))

    def increment(self, counter: TaskCounter) -> None:
        """Count an event of the current minute."""
        minute = self._current_minute()
        if not self._rows or self._rows[-1].minute != minute:
            self._rows.append(_Row(minute, self._new_id()))
        self._rows[-1].counts[counter] += 1
        if self._writing is None or self._writing.done():
            # The empty context prevents that its log lines get the facts of the current task.
            self._writing = asyncio.create_task(self._write_each_minute(), context=Context())

    async def _write_each_minute(self) -> None:
        while self._rows:
            end = self._current_minute() + timedelta(minutes=1)
            left = (end - self._now()).total_seconds()
            await asyncio.sleep(left + _SPREAD_SECONDS * random())  # noqa: S311 - it spreads writes
            current = self._current_minute()
            closed = [row for row in self._rows if current - _KEPT_FOR <= row.minute < current]
            self._rows = [row for row in self._rows if row.minute >= current]
            unwritten = []
            for row in closed:
                try:
                    await self._write_counts(row.minute, row.id, row.counts)
                except Exception as error:  # noqa: BLE001 - the counts of other minutes are written
                    _log.warning("counts of %s are not written; retry in a minute: %s", row.minute, error)
                    unwritten.append(row)
            self._rows[:0] = unwritten

    def _current_minute(self) -> datetime:
        return self._now().replace(second=0, microsecond=0)


def _counters(before: TaskRecord | None, after: TaskRecord) -> Iterator[TaskCounter]:
    if before is None:
        yield TaskCounter.ACCEPTED
    if any(closed.end is EpochEnd.RECOVERED for closed in after.closed):
        yield TaskCounter.RECOVERED
    if _has_ended(before, after):
        yield _ENDS[final_state(after)]


def _has_ended(before: TaskRecord | None, after: TaskRecord) -> bool:
    """Return whether the change ended the task, also for a task that ended before and was resubmitted."""
    earlier = None if before is None else (before.finished_at, before.epoch)
    return after.finished_at is not None and earlier != (after.finished_at, after.epoch)


def _ended_attempts(
    before: TaskRecord | None, after: TaskRecord
) -> Iterator[tuple[StepSpec, Direction, Attempt]]:
    """Yield the starts of steps that ended with the change. A step that only waits makes no call."""
    for name, step in after.steps.items():
        old, spec = None if before is None else before.steps.get(name), after.order.by_name[name]
        if step is old or spec.type in WAITING_TYPES:
            continue
        for direction in Direction:
            known = () if old is None else old.operation(direction).attempts
            starts = {attempt.started_at for attempt in known}
            for attempt in step.operation(direction).attempts:
                if attempt.started_at not in starts:
                    yield spec, direction, attempt
