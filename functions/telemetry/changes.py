"""Counts tasks and steps, where each change passes once: when it is recorded."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random, SystemRandom

from functions.pattern.errors import TransientError
from functions.pattern.occurrences import TaskCounter, occurrences
from functions.pattern.ports import Clock, MinuteCounts
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import ChangeAnnouncer
from functions.telemetry import instruments
from functions.telemetry.fields import Facts, Field, attributes

_log = logging.getLogger(__name__)

_COUNTERS = {
    TaskCounter.ACCEPTED: instruments.SUBMITTED,
    TaskCounter.PROCESSED: instruments.PROCESSED,
    TaskCounter.COMPENSATED: instruments.COMPENSATED,
    TaskCounter.ERROR: instruments.ERRORS,
    TaskCounter.RECOVERED: instruments.RECOVERIES,
}


class MinuteCounter:
    """Counts in memory, and writes a row for each minute; a process that ends loses the last minute's."""

    def __init__(
        self,
        rows: MinuteCounts,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Random | None = None,
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._new_id = new_id
        self._sleep = sleep
        self._random = random or SystemRandom()
        self._unwritten: list[_Row] = []
        self._writing: asyncio.Task[None] | None = None

    def increment(self, counter: TaskCounter) -> None:
        """Count an event of the current minute."""
        minute = self._current_minute()
        if not self._unwritten or self._unwritten[-1].minute != minute:
            self._unwritten.append(_Row(minute, self._new_id()))
        self._unwritten[-1].counts[counter] += 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_each_minute(), context=Context())

    async def settle(self) -> None:
        """Wait until all counts are written."""
        if self._writing is not None:
            await self._writing

    async def _write_each_minute(self) -> None:
        while self._unwritten:
            left = self._current_minute() + timedelta(minutes=1) - self._clock.now()
            # The processes spread their writes over 10 seconds.
            await self._sleep(left.total_seconds() + 10 * self._random.random())
            current = self._current_minute()
            # Rows that the store does not accept are kept as long as the console would show them.
            oldest = current - timedelta(hours=1)
            closed = [row for row in self._unwritten if oldest <= row.minute < current]
            self._unwritten = [row for row in self._unwritten if row.minute >= current]
            self._unwritten[:0] = [row for row in closed if not await self._write(row)]

    async def _write(self, row: _Row) -> bool:
        try:
            await self._rows.write(row.minute, row.id, row.counts)
        except TransientError as fault:
            _log.warning("counts of %s not written, retrying in a minute (%s)", row.minute, fault)
            return False
        except Exception:  # noqa: BLE001 - a defect must not stop the writes of other rows
            _log.exception("counts of %s not written", row.minute)
        return True

    def _current_minute(self) -> datetime:
        return self._clock.now().replace(second=0, microsecond=0)


@dataclass(slots=True)
class _Row:
    minute: datetime
    id: str
    counts: Counter[TaskCounter] = field(default_factory=Counter)


class CountedChanges:
    """Counts each change, then has it announced. A crash between record and count loses the count."""

    def __init__(self, announcer: ChangeAnnouncer, minutes: MinuteCounter) -> None:
        self._announcer = announcer
        self._minutes = minutes

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Count the change from `before` to `after`, and announce it."""
        occurred = occurrences(before, after)
        workflow = {Field.WORKFLOW.value: occurred.workflow}
        for counter in occurred.counters:
            _COUNTERS[counter].add(1, workflow)
            self._minutes.increment(counter)
        if occurred.end is not None:
            ended = {**workflow, Field.STATE.value: occurred.end.state.value}
            instruments.TASK_DURATION.record(occurred.end.seconds, ended)
        for step in occurred.steps:
            facts: Facts = {
                Field.AGENT: step.shape.agent,
                Field.OUTCOME: step.outcome.value,
                Field.DIRECTION: step.direction.value,
            }
            instruments.STEP_DURATION.record(step.seconds, attributes(facts))
        await self._announcer.announce(before, after)
