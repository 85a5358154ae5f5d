"""Sends the messages that follow from a change, once the change is recorded."""

from __future__ import annotations

import logging

from functions.pattern.announcements import Announcement, announcements, starts_scheduler
from functions.pattern.errors import TransientError
from functions.pattern.ports import Announcements, SchedulerRequests
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import Outbox

_log = logging.getLogger(__name__)


class Announcer:
    """Sends at once; what can't be sent now is left to the Supervisor, and never harms the task."""

    def __init__(self, *, outbox: Outbox, announcements: Announcements, requests: SchedulerRequests) -> None:
        self._outbox = outbox
        self._announcements = announcements
        self._requests = requests

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Send the request and the announcements that follow from the change from `before` to `after`."""
        if before is not None and starts_scheduler(before, after):
            await self._request(after)
        for announcement in announcements(before, after):
            await self._send(announcement)

    async def _request(self, record: TaskRecord) -> None:
        task = record.task
        try:
            await self._requests.request(task.order_id, task.epoch, task.not_before)
        except TransientError as fault:
            _log.warning("task %s: its request waits for the Supervisor (%s)", task.order_id, fault)
        except Exception:  # noqa: BLE001 - the change holds, whatever follows it
            _log.exception("task %s: its request failed, and waits for the Supervisor", task.order_id)

    async def _send(self, announcement: Announcement) -> None:
        try:
            await self._announcements.send(announcement)
            await self._outbox.mark_sent(announcement)
        except TransientError as fault:
            _log.warning(
                "task %s: %s waits for the Supervisor (%s)", announcement.task, announcement.kind, fault
            )
        except Exception:  # noqa: BLE001 - as above
            _log.exception("task %s: %s failed", announcement.task, announcement.kind)
