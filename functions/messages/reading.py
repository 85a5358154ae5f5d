"""Reads messages of queues; one that can't be understood is recorded as rejected, and harms no other."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import azure.functions as func
from pydantic import BaseModel, ValidationError

from functions.pattern.rejected import Content, Labels, RejectedMessages

#: Application properties in which Service Bus says why a message died.
DEAD_LETTER_REASON = "DeadLetterReason"
DEAD_LETTER_DESCRIPTION = "DeadLetterErrorDescription"
_OF_SERVICE_BUS = {DEAD_LETTER_REASON, DEAD_LETTER_DESCRIPTION}

_log = logging.getLogger(__name__)


def content_of(message: func.ServiceBusMessage) -> Content:
    """Give what is needed to send a message again."""
    properties = {
        str(name): value
        for name, value in (message.application_properties or {}).items()
        if isinstance(value, str | int | float | bool) and name not in _OF_SERVICE_BUS
    }
    labels = Labels(
        subject=message.subject or message.label, correlation_id=message.correlation_id, properties=properties
    )
    return Content(message.get_body(), labels)


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
