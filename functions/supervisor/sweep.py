"""The sweep: has overdue tasks recovered or given up, and sends announcements that were not sent.

A crash anywhere leaves a task overdue, and the next sweep finds it. Two sweeps at once do no harm: every
write is conditional.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from functions.messages.ends import Parents
from functions.pattern.crowds import CrowdCause
from functions.pattern.decisions import in_question
from functions.pattern.definition import Registry
from functions.pattern.errors import TransientError
from functions.pattern.events import (
    DecisionDue,
    Eased,
    Extended,
    GivenUp,
    Judgement,
    Parked,
    Postponed,
    Recovered,
    Resumed,
)
from functions.pattern.ports import Ports
from functions.pattern.readiness import what_is_missing
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.shared_rows import Chore
from functions.pattern.store_ports import Changed, Index, IndexEntry, IndexPage, Stored
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.wait_events import WaitsEnded
from functions.pattern.waiting import within
from functions.supervisor.course import Course
from functions.supervisor.crowds import CrowdControl, Late, SweptCrowds
from functions.supervisor.damage import Damage
from functions.supervisor.leftovers import Leftovers
from functions.supervisor.releases import Releases
from functions.supervisor.silence import Silence
from functions.supervisor.sweeping import SweepReport, for_each
from functions.telemetry.instruments import OVERDUE, SWEEP_DURATION
from functions.telemetry.spans import current_traceparent
from functions.telemetry.tasks import decision_span, sweep_span

_log = logging.getLogger(__name__)

#: Index entries that one request reads, and such requests for one shard in one sweep.
_PAGE = 100
_PAGES = 5
_SHARDS_AT_ONCE = 4
_TASKS_AT_ONCE = 10
#: What an intervention is called in traces.
_NAMES = {Recovered: "recover", Resumed: "resume", GivenUp: "give up", DecisionDue: "end as decided"}
#: Seconds after which a sweep is cut short; the host would end it after five minutes, with the process.
_LONGEST = 120
#: Seconds for what is held back until then.
_LONGEST_REST = 60
#: Seconds that one task may take: a page of them has to fit into a sweep, or none would get beyond it.
_LONGEST_LOOK = 10


class Sweep:
    """One Supervisor's sweeps; `instance` names it in the heartbeat."""

    def __init__(
        self,
        ports: Ports,
        policy: SupervisionPolicy,
        registry: Registry,
        instance: str,
        damage: Damage,
        *,
        silence: Silence,
        crowds: CrowdControl,
    ) -> None:
        self._ports = ports
        self._policy = policy
        self._registry = registry
        self._instance = instance
        self._parents = Parents(ports.store, ports.clock, policy.start_within)
        self._releases = Releases(ports, registry, policy.start_within)
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
                await for_each(crowds.rest(), partial(self._look_at_rest, report), at_once=_TASKS_AT_ONCE)
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
        until, after = self._ports.clock.now() - self._policy.skew, course.begin(shard)
        with report.surviving(f"shard {shard}: its overdue tasks"):
            for _ in range(_PAGES):
                page = await self._page(shard, until, after)
                report.found_damaged(page.unreadable)
                look = partial(self._look_at, report, crowds)
                await for_each(page.entries, look, at_once=_TASKS_AT_ONCE)
                after = course.came_to(shard, page.continuation)
                if after is None:
                    break
            return
        course.failed(shard)

    async def _page(self, shard: int, until: datetime, after: str | None) -> IndexPage:
        """Read what is due from a place on; what is no place stands for the beginning."""
        read = partial(self._ports.index.page, Index.DUE, shard, until=until, most=_PAGE)
        try:
            return await read(after=after)
        except ValueError:
            if after is None:
                raise
            return await read(after=None)

    async def _look_at(self, report: SweepReport, crowds: SweptCrowds, entry: IndexEntry) -> None:
        with report.surviving(f"task {entry.task}"):
            report.found += 1
            await within(_LONGEST_LOOK, self._judge(report, crowds, entry))

    async def _look_at_rest(self, report: SweepReport, late: Late) -> None:
        with report.surviving(f"task {late.stored.record.order.task}"):
            await within(_LONGEST_LOOK, self._act(report, late))

    async def _judge(self, report: SweepReport, crowds: SweptCrowds, entry: IndexEntry) -> None:
        """Do about a task what is to be done, or leave it for when it is known how many are late."""
        stored = await self._ports.store.load(entry.task)
        event = None if stored is None else judge(stored.record, self._ports.clock.now(), self._policy)
        if stored is None or event is None:
            report.stale += 1
            text = "index row of %s, task %s: no such task is in progress; the full sweep deletes it"
            _log.info(text, entry.at, entry.task)
            return
        if isinstance(event, WaitsEnded):
            await self._parents.look(stored.record)
        judged = Late(stored, self._parked_instead(stored.record, event) or event)
        late = await crowds.sort_in(judged)
        if late is not None:
            await self._act(report, late)

    def _parked_instead(self, record: TaskRecord, event: Judgement) -> Parked | None:
        """Park what nobody here could go on with: that neither counts as its failure nor ends it."""
        if not isinstance(event, Recovered | GivenUp) or in_question(record) is not None:
            return None
        missing, task = what_is_missing(self._registry, record), record.task
        if missing is None:
            return None
        return Parked(
            epoch=task.epoch, scheduler=task.locked_by, reason=missing.reason, lasting=missing.lasting
        )

    async def _act(self, report: SweepReport, late: Late) -> None:
        stored, event = late.stored, late.event
        if not isinstance(event, Postponed | WaitsEnded):
            with_many = late.in_crowd is CrowdCause.NO_REPLY
            report.is_overdue(stored.record, self._ports.clock.now(), with_many=with_many)
        if isinstance(await self._decide(stored, event), Refused):
            report.overtaken += 1
            return
        report.count(event)

    async def _decide(self, stored: Stored, event: Judgement | Parked | Eased) -> Changed | Refused:
        """Write the decision; what follows an intervention is linked to the span in which it was made."""
        task, change = stored.record.order.task, self._ports.store.change
        if isinstance(event, Postponed | Parked | WaitsEnded | Extended):
            return await change(task, event, read=stored)
        with decision_span(stored.record, _NAMES[type(event)]):
            return await change(task, replace(event, traceparent=current_traceparent()), read=stored)
