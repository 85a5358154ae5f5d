"""The sweep: has overdue tasks recovered or given up, and sends announcements that were not sent.

A crash anywhere leaves a task overdue, and the next sweep finds it. A sweep that runs out of time
records a cursor for each shard, and the next sweep continues there (`course.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from functions.pattern.errors import TransientError
from functions.pattern.ports import Ports
from functions.pattern.shared_rows import Chore
from functions.supervisor.course import Course
from functions.supervisor.crowds import CrowdControl
from functions.supervisor.damage import Damage
from functions.supervisor.due_tasks import DueTasks
from functions.supervisor.leftovers import Leftovers
from functions.supervisor.releases import Releases
from functions.supervisor.silence import Silence
from functions.supervisor.sweeping import SweepReport, for_each
from functions.supervisor.swept_crowds import SweptCrowds
from functions.telemetry.instruments import OVERDUE, SWEEP_DURATION
from functions.telemetry.spans import sweep_span

#: Pages of one shard in one sweep.
_PAGES = 5
_SHARDS_AT_ONCE = 4
#: Seconds after which a sweep is cut short; the host would end it after five minutes, with the process.
_LONGEST = 120
#: Seconds for what is held back until then.
_LONGEST_REST = 60


class Sweep:
    """One Supervisor's sweeps; `instance` names it in the heartbeat."""

    def __init__(
        self,
        ports: Ports,
        due: DueTasks,
        releases: Releases,
        instance: str,
        damage: Damage,
        *,
        silence: Silence,
        crowds: CrowdControl,
    ) -> None:
        self._ports = ports
        self._due = due
        self._instance = instance
        self._releases = releases
        self._damage = damage
        self._silence = silence
        self._crowds = crowds

    async def run(self) -> SweepReport:
        """Sweep once and write the heartbeat. Raises `TransientError` when no shard could be read."""
        with sweep_span():
            started_at = self._ports.clock.now()
            report = SweepReport()
            latest = await self._latest(report)
            course = Course(self._ports.index.shards, latest)
            crowds = await self._crowds.begin(latest, report)
            leftovers = Leftovers(self._ports, report)
            async with report.bounded(_LONGEST):
                sweep_shard = partial(self._sweep_shard, report, course, leftovers, crowds)
                await for_each(course.shards, sweep_shard, at_once=_SHARDS_AT_ONCE)
            async with report.bounded(_LONGEST_REST):
                await self._due.rest(report, crowds)
            if not course.read and not report.unfinished:
                raise TransientError("no shard could be read")
            report.unfinished |= course.unfinished
            await self._damage.report(report)
            silent = await self._silence.report(report)
            await self._crowds.report(crowds, silent, report)
            await self._beat(report, started_at, course)
            return report

    async def _latest(self, report: SweepReport) -> Mapping[str, Any] | None:
        """Read the last sweep's heartbeat, whoever swept: this one begins where that did not come to."""
        with report.surviving("heartbeat"):
            return await self._ports.heartbeats.latest(Chore.SWEEP)
        return None

    async def _beat(self, report: SweepReport, started_at: datetime, course: Course) -> None:
        finished_at = self._ports.clock.now()
        SWEEP_DURATION.record((finished_at - started_at).total_seconds())
        OVERDUE.set(report.overdue)
        sign = {"instance": self._instance, "started_at": started_at, "finished_at": finished_at}
        with report.surviving("heartbeat"):
            await self._ports.heartbeats.beat(Chore.SWEEP, sign | course.figures() | report.figures())

    async def _sweep_shard(
        self, report: SweepReport, course: Course, leftovers: Leftovers, crowds: SweptCrowds, shard: int
    ) -> None:
        """Look at a shard's due and parked tasks, and send what is left over; none waits for the others."""
        await asyncio.gather(
            self._look_at_due(report, course, crowds, shard),
            self._look_at_parked(report, shard),
            leftovers.send(shard),
        )

    async def _look_at_parked(self, report: SweepReport, shard: int) -> None:
        with report.surviving(f"shard {shard}: its parked tasks"):
            await self._releases.look(shard, report)

    async def _look_at_due(
        self, report: SweepReport, course: Course, crowds: SweptCrowds, shard: int
    ) -> None:
        until, after = self._ports.clock.now(), course.begin(shard)
        with report.surviving(f"shard {shard}: its overdue tasks"):
            for _ in range(_PAGES):
                after = course.came_to(shard, await self._due.page(shard, after, until, report, crowds))
                if after is None:
                    break
            return
        course.failed(shard)
