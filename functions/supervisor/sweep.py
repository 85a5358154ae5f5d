"""The sweep: has overdue tasks recovered or given up, and sends announcements that were not sent.

A crash anywhere leaves a task overdue, and the next sweep finds it. Two sweeps at once do no harm: every
write is conditional.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

from functions.pattern.announcements import Announcement
from functions.pattern.definition import Registry
from functions.pattern.errors import TransientError
from functions.pattern.events import (
    AnnouncementSent,
    DecisionDue,
    GivenUp,
    Judgement,
    Postponed,
    Recovered,
    Refused,
)
from functions.pattern.ports import Ports
from functions.pattern.states import AnnouncementKind
from functions.pattern.store_ports import Changed, Index, IndexEntry, Stored
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.supervisor.releases import Releases
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
_NAMES = {Recovered: "recover", GivenUp: "give up", DecisionDue: "end as decided"}
#: Seconds after which a sweep is cut short; the host would end it after five minutes, with the process.
_LONGEST = 120
#: The process that recorded an announcement has this time to send it.
_LEFT_OVER_AFTER = timedelta(seconds=30)
#: A reply queue that fails for this long does not exist any more.
_DROPPED_AFTER = timedelta(days=1)
#: Announcements of one shard that a sweep reads.
_MOST = 100
_QUEUES_AT_ONCE = 10


class Sweep:
    """One Supervisor's sweeps; `instance` names it in the heartbeat."""

    def __init__(self, ports: Ports, policy: SupervisionPolicy, registry: Registry, instance: str) -> None:
        self._ports = ports
        self._policy = policy
        self._instance = instance
        self._releases = Releases(ports, registry, policy.start_within)
        self._leftovers = Leftovers(ports)

    async def run(self) -> SweepReport:
        """Sweep once and write the heartbeat. Raises `TransientError` when no shard could be read."""
        with sweep_span():
            started_at = self._ports.clock.now()
            report = SweepReport()
            read = set[int]()
            async with report.bounded(_LONGEST):
                shards = range(self._ports.index.shards)
                await for_each(shards, partial(self._sweep_shard, report, read), at_once=_SHARDS_AT_ONCE)
            if not read and not report.unfinished:
                raise TransientError("no shard could be read")
            await self._beat(report, started_at)
            return report

    async def _beat(self, report: SweepReport, started_at: datetime) -> None:
        finished_at = self._ports.clock.now()
        SWEEP_DURATION.record((finished_at - started_at).total_seconds())
        OVERDUE.set(report.overdue)
        sign = {"instance": self._instance, "started_at": started_at, "finished_at": finished_at}
        with report.surviving("heartbeat"):
            await self._ports.heartbeat.beat(sign | asdict(report))

    async def _sweep_shard(self, report: SweepReport, read: set[int], shard: int) -> None:
        with report.surviving(f"shard {shard}: its overdue tasks"):
            await self._look_at_due(shard, report)
            read.add(shard)
        with report.surviving(f"shard {shard}: its parked tasks"):
            await self._releases.look(shard, report)
        with report.surviving(f"shard {shard}: its announcements"):
            await self._leftovers.send(shard, report)

    async def _look_at_due(self, shard: int, report: SweepReport) -> None:
        until = self._ports.clock.now() - self._policy.skew
        after = None
        for _ in range(_PAGES):
            page = await self._ports.index.page(Index.DUE, shard, until=until, after=after, most=_PAGE)
            await for_each(page.entries, partial(self._look_at, report), at_once=_TASKS_AT_ONCE)
            after = page.continuation
            if after is None:
                return
        report.unfinished = True

    async def _look_at(self, report: SweepReport, entry: IndexEntry) -> None:
        with report.surviving(f"task {entry.task}"):
            report.found += 1
            stored = await self._ports.store.load(entry.task)
            event = None if stored is None else judge(stored.record, self._ports.clock.now(), self._policy)
            if stored is None or event is None:
                report.stale += 1
                _log.info(
                    "index row of %s, task %s: no such task is in progress; the full sweep deletes it",
                    entry.at,
                    entry.task,
                )
                return
            await self._act(report, stored, event)

    async def _act(self, report: SweepReport, stored: Stored, event: Judgement) -> None:
        if not isinstance(event, Postponed):
            report.overdue += 1
            overdue = self._ports.clock.now() - (stored.record.task.complete_by or stored.record.task.due_at)
            report.oldest_overdue = max(report.oldest_overdue, overdue.total_seconds())
        if isinstance(await self._decide(stored, event), Refused):
            report.overtaken += 1
            return
        match event:
            case Postponed():
                report.postponed += 1
            case Recovered():
                report.recovered += 1
            case GivenUp():
                report.given_up += 1
            case DecisionDue():
                report.ended_as_decided += 1
            case _:
                assert_never(event)

    async def _decide(self, stored: Stored, event: Judgement) -> Changed | Refused:
        """Write the decision; what follows an intervention is linked to the span in which it was made."""
        task, change = stored.record.order.task, self._ports.store.change
        if isinstance(event, Postponed):
            return await change(task, event, read=stored)
        with decision_span(stored.record, _NAMES[type(event)]):
            return await change(task, replace(event, traceparent=current_traceparent()), read=stored)


class Leftovers:
    """Sends the announcements that are left over in a shard."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def send(self, shard: int, report: SweepReport) -> None:
        """Send what is left over, oldest first; a queue that fails does not hold up the others."""
        before = self._ports.clock.now() - _LEFT_OVER_AFTER
        by_queue: defaultdict[str | None, list[Announcement]] = defaultdict(list)
        unsent = await self._ports.outbox.unsent(shard, before, _MOST)
        for announcement in unsent:
            alert = announcement.kind is AnnouncementKind.ALERT
            by_queue[None if alert else announcement.reply_to].append(announcement)
        await for_each(by_queue.values(), partial(self._send_to_queue, report), at_once=_QUEUES_AT_ONCE)
        report.unfinished |= len(unsent) == _MOST

    async def _send_to_queue(self, report: SweepReport, announcements: Sequence[Announcement]) -> None:
        """Send to one queue until it fails; then drop what it has failed to take for too long."""
        for number, announcement in enumerate(announcements):
            if not await self._send_one(report, announcement):
                await self._drop_old(report, announcements[number:])
                return

    async def _send_one(self, report: SweepReport, announcement: Announcement) -> bool:
        with report.surviving(f"task {announcement.task}: {announcement.kind}"):
            await self._ports.announcements.send(announcement)
            await self._mark_sent(announcement)
            report.sent += 1
            return True
        return False

    async def _mark_sent(self, announcement: Announcement) -> None:
        """Record that it was sent; a row is left over if that is recorded already, or the task was purged."""
        sent = AnnouncementSent(announcement=announcement, sent_at=self._ports.clock.now())
        marked = await self._ports.store.change(announcement.task, sent)
        if isinstance(marked, Refused) or not marked.events:
            await self._ports.outbox.give_up(announcement)

    async def _drop_old(self, report: SweepReport, announcements: Sequence[Announcement]) -> None:
        oldest = self._ports.clock.now() - _DROPPED_AFTER
        for announcement in announcements:
            if announcement.at >= oldest or announcement.kind is AnnouncementKind.ALERT:
                continue
            with report.surviving(f"task {announcement.task}: {announcement.kind}"):
                await self._ports.outbox.give_up(announcement)
                report.dropped += 1
                text = "task %s: %s was never sent, its reply queue %s takes nothing"
                _log.warning(text, announcement.task, announcement.kind, announcement.reply_to)
