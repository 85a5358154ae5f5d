"""The schedule monitor: records each timer's next run on disk, so that a missed run is done at start.

The record is written after a run, so a host that is killed during a run repeats it as past due: at least
once, as in Azure.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from functions_local.locks import try_lock
from functions_local.timers.ncrontab import Schedule

#: Schedules with a shorter interval have no record, as in Azure.
_MONITORED_FROM = timedelta(minutes=1)
#: Seconds between two attempts to run a timer that another host runs.
_TRY_EVERY = 1.0


class ScheduleStatus(BaseModel):
    """One timer's record; all times are naive UTC. `last` is None until the first run."""

    model_config = ConfigDict(frozen=True)

    last: datetime | None
    next: datetime
    updated: datetime


@dataclass(frozen=True, slots=True)
class Start:
    """A timer's first step at the host's start: run at once as past due, or wait until `status.next`."""

    status: ScheduleStatus
    past_due: bool


class ScheduleMonitor:
    """Keeps one file for each timer function. With `is_shared`, several hosts use the folder."""

    def __init__(self, folder: Path, *, is_shared: bool = False) -> None:
        self._folder = folder
        self._is_shared = is_shared

    @asynccontextmanager
    async def singleton(self, function: str) -> AsyncIterator[None]:
        """Wait for the timer's lock and keep it until the block or the process ends."""
        if not self._is_shared:
            yield
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        while (lock := try_lock(self._folder / f"{function}.lock")) is None:  # noqa: ASYNC110 - another process
            await asyncio.sleep(_TRY_EVERY)
        with closing(lock):
            yield

    def load(self, function: str) -> ScheduleStatus | None:
        """Read a function's record; None if there is none."""
        try:
            return ScheduleStatus.model_validate_json(self._file(function).read_bytes())
        except FileNotFoundError:
            return None

    def save(self, function: str, status: ScheduleStatus) -> None:
        """Replace a function's record atomically: a crash leaves the old or the new one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        fresh = self._file(function).with_suffix(".new")
        fresh.write_text(status.model_dump_json())
        os.replace(fresh, self._file(function))  # noqa: PTH105 - the atomic replacement is the point

    def _file(self, function: str) -> Path:
        return self._folder / f"{function}.json"


def worth_monitoring(schedule: Schedule, now: datetime) -> bool:
    """Whether the schedule fires at most once a minute."""
    first = schedule.next(now)
    return schedule.next(first) - first >= _MONITORED_FROM


def plan_start(recorded: ScheduleStatus | None, schedule: Schedule, now: datetime) -> Start:
    """Decide from a timer's record what to do when the host starts.

    If the record's next time is not the schedule's, the schedule has been edited: the record is ignored, and
    nothing is past due.
    """
    fresh = ScheduleStatus(last=recorded.last if recorded else None, next=schedule.next(now), updated=now)
    if recorded is None or schedule.next(recorded.last or recorded.updated) != recorded.next:
        return Start(fresh, past_due=False)
    return Start(recorded, past_due=now > recorded.next)


def after_run(schedule: Schedule, began: datetime) -> ScheduleStatus:
    """Return the record after a run that started at `began`."""
    return ScheduleStatus(last=began, next=schedule.next(began), updated=began)
