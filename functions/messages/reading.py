"""Reads messages of queues; one that can't be understood is recorded as rejected, and harms no other."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from functions.pattern.store_ports import RejectedMessages

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MessageReader[MessageT: BaseModel]:
    """Reads the messages of one queue; `reason` is recorded with those that can't be understood."""

    expected: type[MessageT]
    queue: str
    rejected: RejectedMessages
    reason: str

    async def read(self, message_id: str, body: bytes) -> MessageT | None:
        """Read one message, or record it as rejected and give None. Raises `TransientError`."""
        try:
            return self.expected.model_validate_json(body)
        except ValidationError as error:
            _log.warning("message %s rejected: %s", message_id, error.title)
            await self.rejected.reject(self.queue, message_id, body, self.reason)
            return None
