"""Announcements that were recorded and not sent: a sweep sends them, and no queue holds up another."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

from functions.pattern.announcements import Announcement
from functions.pattern.errors import UnreadableError
from functions.pattern.events import AnnouncementSent
from functions.pattern.ports import Ports
from functions.pattern.refusals import Refused
from functions.pattern.states import AnnouncementKind
from functions.supervisor.sweeping import SweepReport, for_each

_log = logging.getLogger(__name__)

#: The process that recorded an announcement has this time to send it.
_LEFT_OVER_AFTER = timedelta(seconds=30)
#: A reply queue that fails for this long does not exist any more.
_DROPPED_AFTER = timedelta(days=1)
#: Announcements of one shard that one request reads, and such requests in one sweep: one for each queue.
_MOST = 100
_PAGES = 50
_QUEUES_AT_ONCE = 10

#: A reply queue, or the kind of what goes to one of the application's own.
type Queue = str | AnnouncementKind | None


class Leftovers:
    """Sends in one sweep what is left over in each shard: of every queue some, the oldest first."""

    def __init__(self, ports: Ports, report: SweepReport) -> None:
        self._ports = ports
        self._report = report
        #: Queues that have failed in this sweep: one that hangs costs its time once, not in every shard.
        self._failing = set[Queue]()

    async def send(self, shard: int) -> None:
        """Send what is left over in a shard."""
        with self._report.surviving(f"shard {shard}: its announcements"):
            by_queue = await self._read(shard)
            await for_each(by_queue.items(), self._send_to_queue, at_once=_QUEUES_AT_ONCE)

    async def _read(self, shard: int) -> dict[Queue, list[Announcement]]:
        before = self._ports.clock.now() - _LEFT_OVER_AFTER
        by_queue: defaultdict[Queue, list[Announcement]] = defaultdict(list)
        after: str | None = None
        for _ in range(_PAGES):
            page = await self._ports.outbox.unsent(shard, before, _MOST, after=after)
            self._report.found_damaged(page.unreadable)
            for announcement in page.announcements:
                by_queue[_queue_of(announcement)].append(announcement)
            after = page.continuation
            if after is None:
                break
            self._report.unfinished = True
        return by_queue

    async def _send_to_queue(self, left: tuple[Queue, Sequence[Announcement]]) -> None:
        """Send to one queue until it fails; then drop what it has failed to take for too long."""
        queue, announcements = left
        for number, announcement in enumerate(announcements):
            if queue in self._failing or not await self._send_one(announcement):
                self._failing.add(queue)
                await self._drop_old(announcements[number:])
                return
            await self._mark_sent(announcement)

    async def _send_one(self, announcement: Announcement) -> bool:
        with self._report.surviving(f"task {announcement.task}: {announcement.kind}"):
            await self._ports.announcements.send(announcement)
            self._report.sent += 1
            return True
        return False

    async def _mark_sent(self, announcement: Announcement) -> None:
        """Record that it was sent, or remove its row.

        The row is left over if it is marked already, if the task was purged, or if it can't be read.
        """
        sent = AnnouncementSent(announcement=announcement, sent_at=self._ports.clock.now())
        with self._report.surviving(f"task {announcement.task}: {announcement.kind}"):
            try:
                marked = await self._ports.store.change(announcement.task, sent)
            except UnreadableError as error:
                self._report.found_damaged([error])
            else:
                if not isinstance(marked, Refused) and marked.events:
                    return
            await self._ports.outbox.give_up(announcement)

    async def _drop_old(self, announcements: Sequence[Announcement]) -> None:
        oldest = self._ports.clock.now() - _DROPPED_AFTER
        for announcement in announcements:
            if announcement.at >= oldest or not announcement.kind.is_notice:
                continue
            with self._report.surviving(f"task {announcement.task}: {announcement.kind}"):
                await self._ports.outbox.give_up(announcement)
                self._report.dropped += 1
                text = "task %s: %s was never sent, its reply queue %s takes nothing"
                _log.warning(text, announcement.task, announcement.kind, announcement.reply_to)


def _queue_of(announcement: Announcement) -> Queue:
    return announcement.reply_to if announcement.kind.is_notice else announcement.kind
