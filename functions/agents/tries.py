"""Repeated calls of a remote service: the waits between them, and the notes of failed ones for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from random import Random

from functions.pattern.events import StepTried
from functions.pattern.identity import Epoch, StartId, StepName, TaskId, scheduler_id
from functions.pattern.ports import Clock
from functions.pattern.retry import Retry
from functions.pattern.texts import cause_of


def backoff_seconds(attempt: int, random: Random, retry: Retry) -> float:
    """Give the wait after failed attempt `attempt` (from 1): exponential, with jitter.

    Source: Amazon Builders' Library, "Timeouts, retries and backoff with jitter". At least a quarter of the
    bound is waited, so that retries are never immediate.
    """
    bound = retry.longest_wait(attempt)
    return bound / 4 + random.random() * bound * 3 / 4


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Read a `Retry-After` header (RFC 9110 §10.2.3): seconds or an HTTP date; None when unusable."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header.strip())
    try:
        at = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


class Turns:
    """The turns that one instance has given, one after the other."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._last: datetime | None = None

    def next(self, now: datetime, pace: float) -> datetime:
        """Return the next turn where `pace` calls a second end: in a second at least, in a minute at most.

        Twice as many come as have a place, so that no place is empty. The pace is at least 0.5.
        """
        soonest, longest = now + timedelta(seconds=1), timedelta(seconds=60)
        last = soonest if self._last is None else max(self._last, soonest)
        self._last = last + timedelta(seconds=1 / (2 * max(pace, 0.5)))
        if self._last <= now + longest:
            return self._last
        self._last = now + longest  # very many wait: they are spread over the time until then
        return now + longest * (0.5 + self._random.random() / 2)


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
        """Note the fault that ended the attempt without an outcome; no outcome follows after `ends_by`."""
        self._count(fault)
        await self._note(self._task, replace(self._tried, ended_by=ends_by))

    def _count(self, fault: Exception) -> None:
        self._tried = replace(self._tried, attempts=self._tried.attempts + 1, fault=cause_of(fault))
