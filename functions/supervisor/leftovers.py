"""Sends the announcements that a crash, or an outage of Service Bus, kept from being sent."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from functions.pattern.announcements import Announcement
from functions.pattern.ports import Ports
from functions.pattern.states import AnnouncementKind
from functions.supervisor.sweeping import SweepReport, for_each

_log = logging.getLogger(__name__)

#: The process that recorded an announcement has this time to send it.
_LEFT_OVER_AFTER = timedelta(seconds=30)
#: A reply queue that fails for this long does not exist any more.
_DROPPED_AFTER = timedelta(days=1)
#: Announcements of one shard that a sweep reads.
_MOST = 100
_QUEUES_AT_ONCE = 10


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
            await self._ports.outbox.mark_sent(announcement)
            report.sent += 1
            return True
        return False

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
