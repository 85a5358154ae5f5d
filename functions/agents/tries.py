"""How often a step was tried in vain, for operators, while it goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from functions.pattern.events import StepTried
from functions.pattern.identity import Epoch, StartId, StepName, TaskId, scheduler_id
from functions.pattern.ports import Clock
from functions.pattern.texts import cause_of

#: Has a task take what is noted of it.
Note = Callable[[TaskId, StepTried], Awaitable[None]]


async def note_nowhere(task: TaskId, event: StepTried) -> None:
    """Note nothing: the tasks are kept elsewhere."""


class Tries:
    """Counts the calls of one start of a step that have failed, and has them noted on its record."""

    def __init__(
        self,
        note: Note,
        clock: Clock,
        *,
        task: TaskId,
        epoch: Epoch,
        step: StepName,
        start_id: StartId | None,
    ) -> None:
        self._note = note
        self._clock = clock
        self._task = task
        author = scheduler_id(task, epoch)
        self._tried = StepTried(
            epoch=epoch, scheduler=author, step=step, start_id=start_id, attempts=0, fault=""
        )
        self._noted_at: datetime | None = None

    async def failed(self, fault: Exception) -> None:
        """Count a call that failed, and that is tried again; note it from the third on, each ten seconds."""
        self._count(fault)
        now = self._clock.now()
        least_attempts = 3
        is_due = self._noted_at is None or now >= self._noted_at + timedelta(seconds=10)
        if self._tried.attempts >= least_attempts and is_due:
            self._noted_at = now
            await self._note(self._task, self._tried)

    async def ended(self, fault: Exception, ends_by: datetime | None = None) -> None:
        """Note the fault by which the attempt ended, without an outcome.

        Nothing more comes of this start after `ends_by`, however long its request might have waited.
        """
        self._count(fault)
        await self._note(self._task, replace(self._tried, ended_by=ends_by))

    def _count(self, fault: Exception) -> None:
        self._tried = replace(self._tried, attempts=self._tried.attempts + 1, fault=cause_of(fault))
