"""Messages as the host hands them over, and the queues that they are put on again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import azure.functions as func

from functions.pattern.errors import TransientError
from functions.pattern.rejected import Content


def received(
    body: bytes = b"{}",
    message_id: str | None = "m-1",
    *,
    properties: Mapping[str, Any] | None = None,
    subject: str | None = None,
    correlation_id: str | None = None,
) -> func.ServiceBusMessage:
    """Make a message that was taken off a queue."""
    message = SimpleNamespace(
        get_body=lambda: body,
        message_id=message_id,
        application_properties=properties,
        subject=subject,
        correlation_id=correlation_id,
    )
    return cast("func.ServiceBusMessage", message)


class RecordedPostbox:
    """Records what is put on queues again: queue, message id, content, and earliest delivery."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Content, datetime | None]] = []
        self.failing = False

    async def put(
        self, queue: str, message_id: str, content: Content, *, not_before: datetime | None = None
    ) -> None:
        """Record the message, or raise as Service Bus does."""
        if self.failing:
            raise TransientError("Service Bus: ServiceBusConnectionError")
        self.sent.append((queue, message_id, content, not_before))
