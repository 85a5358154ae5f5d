"""Reads messages of queues; one that can't be understood is recorded as rejected, and harms no other."""

from __future__ import annotations

import logging

from pydantic import BaseModel, ValidationError

from functions.pattern.store_ports import RejectedMessages

_log = logging.getLogger(__name__)


class MessageReader[MessageT: BaseModel]:
    """Reads the messages of one queue; `reason` is recorded with those that can't be understood."""

    def __init__(
        self, expected: type[MessageT], queue: str, rejected: RejectedMessages, *, reason: str
    ) -> None:
        self._expected = expected
        self._queue = queue
        self._rejected = rejected
        self._reason = reason

    async def read(self, message_id: str, body: bytes) -> MessageT | None:
        """Read one message, or record it as rejected and give None. Raises `TransientError`."""
        try:
            return self._expected.model_validate_json(body)
        except ValidationError as error:
            _log.warning("message %s rejected: %s", message_id, error.title)
            await self._rejected.reject(self._queue, message_id, body, self._reason)
            return None
