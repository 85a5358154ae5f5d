"""Sends what a recorded change has to be followed by; what can't be sent now is left to the Supervisor."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable

from functions.pattern.announcements import Announcement, announcements, starts_scheduler, wakes_scheduler
from functions.pattern.errors import TransientError
from functions.pattern.events import AnnouncementSent
from functions.pattern.ports import Announcements, Clock, SchedulerRequests
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind
from functions.store.task_writer import TaskWriter

_log = logging.getLogger(__name__)

#: Notices on their way to one queue; more are left in the outbox: a queue that takes nothing holds up nobody.
_MOST_ON_THEIR_WAY = 1_000


class Announcer:
    """Sends at once, and never harms the task: each announcement lies in the outbox until it was sent."""

    def __init__(
        self, writer: TaskWriter, *, announcements: Announcements, requests: SchedulerRequests, clock: Clock
    ) -> None:
        self._writer = writer
        self._announcements = announcements
        self._requests = requests
        self._clock = clock
        self._on_their_way: defaultdict[str | None, set[asyncio.Task[None]]] = defaultdict(set)

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Send the request and the announcements that follow from a change; nobody waits for notices."""
        if before is not None and starts_scheduler(before, after):
            await self._ask(after, self._requests.request(after.task, after.queued))
        woken = None if before is None else wakes_scheduler(before, after)
        if woken is not None:
            await self._ask(after, self._requests.wake(after.task, woken))
        for announcement in announcements(before, after):
            if announcement.kind is AnnouncementKind.ALERT:
                await self._send(announcement)
            elif len(on_their_way := self._on_their_way[announcement.reply_to]) < _MOST_ON_THEIR_WAY:
                sending = asyncio.create_task(self._send(announcement))
                on_their_way.add(sending)
                sending.add_done_callback(on_their_way.discard)

    async def settle(self) -> None:
        """Wait until every notice is sent, or has failed."""
        while on_their_way := [each for queue in self._on_their_way.values() for each in queue]:
            await asyncio.wait(on_their_way)

    async def _ask(self, record: TaskRecord, request: Awaitable[None]) -> None:
        task = record.task.order_id
        try:
            await request
        except TransientError as fault:
            _log.warning(
                "task %s: its Scheduler is not requested yet, left to the Supervisor (%s)", task, fault
            )
        except Exception:  # noqa: BLE001 - the change holds, whatever follows it
            _log.exception("task %s: its Scheduler is not requested yet, left to the Supervisor", task)

    async def _send(self, announcement: Announcement) -> None:
        try:
            await self._announcements.send(announcement)
        except TransientError as fault:
            text = "task %s: %s not sent yet, left to the Supervisor (%s)"
            _log.warning(text, announcement.task, announcement.kind, fault)
        except Exception:  # noqa: BLE001 - as above
            _log.exception(
                "task %s: %s not sent yet, left to the Supervisor", announcement.task, announcement.kind
            )
        else:
            sent = AnnouncementSent(announcement=announcement, sent_at=self._clock.now())
            self._writer.note(announcement.task, sent)
