"""Takes requests for Schedulers off their queue: after a recovery, a resubmission or a turn to undo."""

from __future__ import annotations

import logging

from pydantic import ValidationError

from functions.pattern.messages import SCHEDULER_REQUESTS_QUEUE, SchedulerRequest
from functions.pattern.ports import RejectedMessages, Schedulers

_log = logging.getLogger(__name__)


class RequestTaker:
    """Starts the Scheduler that a message asks for.

    Whether it may run is decided by its claim, so a message that comes twice, or too late, is harmless.
    """

    def __init__(self, rejected: RejectedMessages) -> None:
        self._rejected = rejected

    async def take(self, message_id: str, body: bytes, schedulers: Schedulers) -> None:
        """Start the Scheduler; a message that can't be understood is kept aside."""
        try:
            request = SchedulerRequest.model_validate_json(body)
        except ValidationError as error:
            _log.warning("message %s rejected: %s", message_id, error.title)
            await self._rejected.reject(SCHEDULER_REQUESTS_QUEUE, message_id, body, "not a request")
            return
        await schedulers.start(request.task_id, request.epoch)
