"""Notices to callers, on the reply queue that their order names, and alerts to the operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from functions.bus.sender import Outgoing, QueueSender
from functions.pattern.announcements import Announcement
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE, announcement_message
from functions.pattern.states import AnnouncementKind


class QueuedAnnouncements:
    """Tells over Service Bus; a queue's connection is opened when it is first needed."""

    def __init__(self, open_sender: Callable[[str], QueueSender]) -> None:
        self._sender = cache(open_sender)

    async def send(self, announcement: Announcement) -> None:
        """Send the announcement to the queue it is for. Raises `TransientError`."""
        alert = announcement.kind is AnnouncementKind.ALERT
        queue = OPERATOR_ALERTS_QUEUE if alert else announcement.reply_to
        if queue is None:
            return
        await self._sender(queue).send(
            Outgoing(
                message_id=announcement.message_id,
                body=announcement_message(announcement).model_dump_json(exclude_none=True).encode(),
                subject=announcement.kind,
                correlation_id=announcement.correlation_id,
            )
        )
