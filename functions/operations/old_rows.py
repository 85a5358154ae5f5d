"""Deletes old rows that are no task's: rejected messages, Agents' requests, counts of tasks."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.pattern.ports import Ports
from functions.supervisor.sweeping import Report

#: Rows that are deleted at a time; there is always another time.
_MOST_ROWS = 5_000

#: The console shows the last hour.
_COUNTS_KEPT = timedelta(hours=2)

#: Seconds after which a run is cut short; the host would end it after five minutes, with the process.
_LONGEST = 240

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Deleted(Report):
    """The numbers of deleted rows: rejected messages, Agents' requests, counts of tasks."""

    rejected: int = 0
    requests: int = 0
    counts: int = 0


class OldRows:
    """Deletes them as fast as it can, for a few minutes; the next run goes on."""

    def __init__(self, ports: Ports, retention_days: float) -> None:
        self._ports = ports
        self._retention = timedelta(days=retention_days)

    async def run(self) -> Deleted:
        """Delete until nothing is left or the time is over, and log one line."""
        now, deleted = self._ports.clock.now(), Deleted()
        async with deleted.bounded(_LONGEST):
            await self._delete(now, deleted)
        level = logging.WARNING if deleted.unfinished or deleted.failures else logging.INFO
        _log.log(level, "old rows %s", deleted)
        return deleted

    async def _delete(self, now: datetime, deleted: Deleted) -> None:
        """Delete some at a time, until there are none."""
        before = now - self._retention
        with deleted.surviving("rejected messages"):
            while count := await self._ports.rejected.delete_before(before, _MOST_ROWS):
                deleted.rejected += count
        with deleted.surviving("Agents' requests"):
            while count := await self._ports.agent_requests.delete_before(before, _MOST_ROWS):
                deleted.requests += count
        with deleted.surviving("counts of tasks"):
            while count := await self._ports.minute_counts.delete_before(now - _COUNTS_KEPT, _MOST_ROWS):
                deleted.counts += count
