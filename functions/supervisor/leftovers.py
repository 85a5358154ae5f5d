"""Tells what a crash, or an outage of Service Bus, kept from being told.

A change's announcements are recorded with it and sent right after; those that are still recorded a
while later are found here.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from functions.pattern.announcements import Announcement
from functions.pattern.ports import Announcements, Clock
from functions.pattern.states import AnnouncementKind
from functions.pattern.store_ports import Outbox
from functions.supervisor.concurrency import for_each
from functions.supervisor.figures import SweepFigures

_log = logging.getLogger(__name__)

#: Who recorded it is given this time to send it.
_LEFT_OVER_AFTER = timedelta(seconds=30)
#: A reply queue that does not answer for this long is taken for gone.
_GIVEN_UP_AFTER = timedelta(days=1)
#: Announcements of one shard that a sweep reads.
_MOST = 100
_QUEUES_AT_ONCE = 10


class Leftovers:
    """Sends the announcements that are left over in a shard."""

    def __init__(self, *, outbox: Outbox, announcements: Announcements, clock: Clock) -> None:
        self._outbox = outbox
        self._announcements = announcements
        self._clock = clock

    async def tell(self, shard: int, figures: SweepFigures) -> None:
        """Tell what is left over, oldest first; a queue that fails does not hold up the others."""
        untold = await self._outbox.unsent(shard, self._clock.now() - _LEFT_OVER_AFTER, _MOST)
        by_queue: defaultdict[str | None, list[Announcement]] = defaultdict(list)
        for announcement in untold:
            by_queue[_queue(announcement)].append(announcement)
        await for_each(by_queue.values(), partial(self._tell_queue, figures), at_once=_QUEUES_AT_ONCE)
        figures.unfinished |= len(untold) == _MOST

    async def _tell_queue(self, figures: SweepFigures, announcements: Sequence[Announcement]) -> None:
        """Tell one queue until it fails; then give up what it has failed to take for too long."""
        for number, announcement in enumerate(announcements):
            if not await self._tell_one(figures, announcement):
                await self._give_up(figures, announcements[number:])
                return

    async def _tell_one(self, figures: SweepFigures, announcement: Announcement) -> bool:
        with figures.surviving(f"task {announcement.task}: {announcement.kind}"):
            await self._announcements.send(announcement)
            await self._outbox.mark_sent(announcement)
            figures.told += 1
            return True
        return False

    async def _give_up(self, figures: SweepFigures, announcements: Sequence[Announcement]) -> None:
        oldest = self._clock.now() - _GIVEN_UP_AFTER
        for announcement in announcements:
            if announcement.at >= oldest or announcement.kind is AnnouncementKind.ALERT:
                continue
            with figures.surviving(f"task {announcement.task}: {announcement.kind}"):
                await self._outbox.give_up(announcement)
                figures.forgotten += 1
                _log.warning(
                    "task %s: %s was never told, its reply queue %s takes nothing",
                    announcement.task,
                    announcement.kind,
                    announcement.reply_to,
                )


def _queue(announcement: Announcement) -> str | None:
    """Tell apart where announcements go: a reply queue, or None for the operators' own."""
    return None if announcement.kind is AnnouncementKind.ALERT else announcement.reply_to
