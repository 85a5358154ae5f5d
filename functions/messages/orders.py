"""Messages of the queue `submissions` that hold several orders: each order as a message by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from functions.messages.reading import QueueMessage
from functions.pattern.submission_groups import orders_in
from functions.telemetry.spans import TRACEPARENT


@dataclass(frozen=True, slots=True)
class _Order:
    """One order, as if it had come in a message of its own."""

    body: bytes
    message_id: str
    subject: str | None
    traceparent: str | None
    label: str | None = None
    correlation_id: str | None = None

    @property
    def application_properties(self) -> Mapping[str, object]:
        return {} if self.traceparent is None else {TRACEPARENT: self.traceparent}

    def get_body(self) -> bytes:
        return self.body


def each_order(message: QueueMessage) -> list[QueueMessage]:
    """Give a message for each order of one that holds several, and any other message as it is."""
    orders = orders_in(message.get_body())
    if orders is None:
        return [message]
    named = message.message_id or ""
    return [
        _Order(order.body, f"{named}.{number}", message.subject or message.label, order.traceparent)
        for number, order in enumerate(orders)
    ]
