"""How often a step was tried in vain, for operators, while it goes on."""

from __future__ import annotations

from datetime import datetime, timedelta

from functions.pattern.ports import Ports
from functions.scheduler.outcomes import StepAttempt

#: From the third attempt on it is worth a look, and a write at most every ten seconds.
_WORTH_A_NOTE = 3
_NOTE_EVERY = timedelta(seconds=10)


class Tries:
    """Counts the calls of one attempt at a step that have failed, and has them noted on its record."""

    def __init__(self, ports: Ports, attempt: StepAttempt) -> None:
        self._ports = ports
        self._attempt = attempt
        self._count = 0
        self._noted_at: datetime | None = None

    async def failed(self, fault: Exception) -> None:
        """Count a call that failed, and that is tried again."""
        self._count += 1
        now = self._ports.clock.now()
        is_due = self._noted_at is None or now >= self._noted_at + _NOTE_EVERY
        if self._count >= _WORTH_A_NOTE and is_due:
            self._noted_at = now
            await self._note(fault)

    async def ended(self, fault: Exception) -> None:
        """Note the fault by which the attempt ended, without an outcome."""
        self._count += 1
        await self._note(fault)

    async def _note(self, fault: Exception) -> None:
        await self._ports.store.note(self._attempt.task, self._attempt.tried(self._count, fault))
