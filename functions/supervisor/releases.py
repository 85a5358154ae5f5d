"""Has parked tasks go on as soon as what they wait for is deployed here, and say why until then."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import partial

from functions.pattern.definition import Registry, Workflow
from functions.pattern.events import Parked, Released
from functions.pattern.parking import rests_until
from functions.pattern.ports import Ports
from functions.pattern.readiness import is_new, what_is_missing
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.store_ports import Index, IndexEntry, Stored
from functions.pattern.untold import untold
from functions.pattern.waiting import within
from functions.supervisor.sweeping import SweepReport, for_each
from functions.telemetry.spans import current_traceparent, decision_span

_log = logging.getLogger(__name__)

#: Index entries that one request reads, and such requests for one version of one shard in one sweep.
_PAGE = 50
_PAGES = 10
_TASKS_AT_ONCE = 10
#: Seconds that one task may take.
_LONGEST_LOOK = 10


class Releases:
    """Looks at the parked tasks whose version is here; those of others are not even read."""

    def __init__(self, ports: Ports, registry: Registry, start_within: timedelta) -> None:
        self._ports = ports
        self._registry = registry
        self._start_within = start_within
        #: Where the next sweep goes on, by shard and version: what can't go on must not hide what can.
        self._places: dict[tuple[int, str, int], str] = {}

    async def look(self, shard: int, report: SweepReport) -> None:
        """Release what can go on. Usually nothing is parked, or by operators only, which is one request."""
        parked = await self._ports.index.page(Index.PARKED, shard, most=1)
        is_empty = not parked.entries and parked.continuation is None
        is_operators = any(each.parked_by_operator for each in parked.entries)  # and so are all behind it
        if parked.unreadable or not (is_empty or is_operators):
            for workflow in self._registry:
                await self._look_at_version(shard, workflow, report)

    async def _look_at_version(self, shard: int, workflow: Workflow, report: SweepReport) -> None:
        """Read on as long as tasks can go on; of those that can't, a page in each sweep is enough."""
        place = (shard, workflow.name, workflow.version)
        after: str | None = self._places.pop(place, "") or None
        for _ in range(_PAGES):
            known = report.released
            page = await self._ports.index.parked(
                workflow.name, workflow.version, shard, after=after, most=_PAGE
            )
            report.found_damaged(page.unreadable)
            await for_each(page.entries, partial(self._release, report), at_once=_TASKS_AT_ONCE)
            after = page.continuation
            if after is None or report.released == known:
                break
        if after is not None:
            self._places[place] = after

    async def _release(self, report: SweepReport, entry: IndexEntry) -> None:
        with report.surviving(f"task {entry.task}, which is parked"):
            await within(_LONGEST_LOOK, self._look_at(report, entry))

    async def _look_at(self, report: SweepReport, entry: IndexEntry) -> None:
        stored = await self._ports.store.load(entry.task)
        if stored is None or not stored.record.task.is_parked:
            report.stale += 1
            return
        now, until = self._ports.clock.now(), rests_until(stored.record)
        rests = until is not None and now < until
        lacks = self._lacks(stored.record, now)
        if lacks is not None and is_new(lacks.lasting or lacks.reason, stored.record.task.last_error):
            await self._ports.store.change(entry.task, lacks, read=stored)
        if rests or lacks is not None:
            return
        await self._go_on(stored, now, report)

    def _lacks(self, record: TaskRecord, now: datetime) -> Parked | None:
        """Say for what it stays parked; None if it can go on.

        An event whose time is over needs its model, or the task would be released and parked for ever.
        """
        missing, epoch = what_is_missing(self._registry, record), record.task.epoch
        if missing is None:
            return untold(self._registry, record, now)
        return missing.parked(epoch, None)

    async def _go_on(self, stored: Stored, now: datetime, report: SweepReport) -> None:
        start_by = now + self._start_within
        with decision_span(stored.record, "release"):
            event = Released(
                epoch=stored.record.task.epoch, start_by=start_by, traceparent=current_traceparent()
            )
            outcome = await self._ports.store.change(stored.record.order.task, event, read=stored)
        if isinstance(outcome, Refused):
            report.overtaken += 1
            return
        report.released += 1
        _log.info("task %s goes on: what it waited for is deployed", stored.record.order.task)
