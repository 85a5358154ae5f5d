"""Deletes rows past their retention that are no task's: rejected messages, Agents' requests, old trends."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.operations.trends.condensing import condense
from functions.pattern.ports import Ports
from functions.supervisor.sweeping import Report

#: Rows that are deleted at a time; there is always another time.
_MOST_ROWS = 5_000

#: Seconds after which a run is cut short; the host would end it after five minutes, with the process.
_LONGEST = 240

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Deleted(Report):
    """What a run deleted: messages and Agents' requests. So many rows of trends were `condensed`."""

    rejected: int = 0
    requests: int = 0
    condensed: int = 0


class OldRows:
    """Deletes them as fast as it can, for a few minutes; the next run goes on."""

    def __init__(self, ports: Ports, retention_days: float) -> None:
        self._ports = ports
        self._retention = timedelta(days=retention_days)

    async def run(self) -> Deleted:
        """Delete until nothing is left or the time is over, and log one line."""
        now, deleted = self._ports.clock.now(), Deleted()
        async with deleted.bounded(_LONGEST):
            await asyncio.gather(
                self._delete(now - self._retention, deleted),
                self._condense(now, deleted),
            )
        level = logging.WARNING if deleted.unfinished or deleted.failures else logging.INFO
        _log.log(level, "old rows %s", deleted)
        return deleted

    async def _delete(self, before: datetime, deleted: Deleted) -> None:
        """Delete some at a time, until there are none."""
        with deleted.surviving("rejected messages"):
            while count := await self._ports.rejected.delete_before(before, _MOST_ROWS):
                deleted.rejected += count
        with deleted.surviving("Agents' requests"):
            while count := await self._ports.agent_requests.delete_before(before, _MOST_ROWS):
                deleted.requests += count

    async def _condense(self, now: datetime, deleted: Deleted) -> None:
        with deleted.surviving("trends"):
            deleted.condensed = await condense(self._ports.trends, now)
