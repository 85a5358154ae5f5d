"""Takes requests for Schedulers off their queue: after a recovery, a resubmission or a turn to undo."""

from __future__ import annotations

from functions.messages.reading import MessageReader
from functions.pattern.messages import SCHEDULER_REQUESTS_QUEUE, SchedulerRequest
from functions.pattern.ports import Schedulers
from functions.pattern.store_ports import RejectedMessages


class RequestTaker:
    """Starts the Scheduler that a message asks for.

    Whether it may run is decided by its claim, so a message that comes twice, or too late, is harmless.
    """

    def __init__(self, rejected: RejectedMessages) -> None:
        self._reader = MessageReader(
            SchedulerRequest, SCHEDULER_REQUESTS_QUEUE, rejected, reason="not a request"
        )

    async def take(self, message_id: str, body: bytes, schedulers: Schedulers) -> None:
        """Start the Scheduler; a message that can't be understood is kept aside."""
        request = await self._reader.read(message_id, body)
        if request is not None:
            await schedulers.start(request.task_id, request.epoch)
