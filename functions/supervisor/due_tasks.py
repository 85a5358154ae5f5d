"""Looks at the tasks that are due, page by page: has overdue ones recovered or given up.

Two that look at the same tasks do no harm: every write is conditional.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from functools import partial

from functions.messages.ends import Parents
from functions.pattern.crowds import CrowdCause
from functions.pattern.decisions import in_question
from functions.pattern.definition import Registry
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
from functions.pattern.store_ports import Changed, Index, IndexEntry, IndexPage, Stored
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.untold import untold
from functions.pattern.wait_events import WaitsEnded
from functions.pattern.waiting import within
from functions.supervisor.sweeping import SweepReport, for_each
from functions.supervisor.swept_crowds import Late, SweptCrowds
from functions.telemetry.spans import current_traceparent, decision_span

_log = logging.getLogger(__name__)

#: Index entries that one request reads.
_PAGE = 100
_TASKS_AT_ONCE = 10
#: What an intervention is called in traces.
_NAMES = {Recovered: "recover", Resumed: "resume", GivenUp: "give up", DecisionDue: "end as decided"}
#: Seconds that one task may take: a page of them has to fit into a sweep, or none would get beyond it.
_LONGEST_LOOK = 10


class DueTasks:
    """What a sweep does about due tasks."""

    def __init__(self, ports: Ports, policy: SupervisionPolicy, registry: Registry) -> None:
        self._ports = ports
        self._policy = policy
        self._registry = registry
        self._parents = Parents(ports.store, ports.clock, policy.start_within)

    async def page(
        self, shard: int, after: str | None, until: datetime, report: SweepReport, crowds: SweptCrowds
    ) -> str | None:
        """Look at a page of what was due of a shard until then, from a place on; give the next place."""
        page = await self._page(shard, until - self._policy.skew, after)
        report.found_damaged(page.unreadable)
        await for_each(page.entries, partial(self._look_at, report, crowds), at_once=_TASKS_AT_ONCE)
        return page.continuation

    async def rest(self, report: SweepReport, crowds: SweptCrowds) -> None:
        """Do what was held back until it was known how many are late."""
        await for_each(crowds.rest(), partial(self._look_at_rest, report), at_once=_TASKS_AT_ONCE)

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
        """Park what nobody here could go on with, or tell: that neither counts as its failure nor ends it."""
        if isinstance(event, WaitsEnded):
            return untold(self._registry, record, self._ports.clock.now())
        if not isinstance(event, Recovered | GivenUp) or in_question(record) is not None:
            return None
        missing, task = what_is_missing(self._registry, record), record.task
        return None if missing is None else missing.parked(task.epoch, task.locked_by)

    async def _act(self, report: SweepReport, late: Late) -> None:
        stored, event = late.stored, late.event
        is_untold = isinstance(event, Parked) and event.untold is not None
        if not (is_untold or isinstance(event, Postponed | WaitsEnded)):
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
