"""Spans of messages that are taken off queues: each goes on with the trace that its sender put on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from opentelemetry.trace import Span, SpanKind

from functions.telemetry.fields import Field
from functions.telemetry.propagation import TRACEPARENT, context_of
from functions.telemetry.spans import span


class ReceivedMessage(Protocol):
    """A message as the Functions host hands it over."""

    @property
    def application_properties(self) -> dict[str, Any] | None:
        """What the sender put beside the body."""


@contextmanager
def message_span(queue: str, message: ReceivedMessage) -> Iterator[Span]:
    """Follow the work on one message of `queue`."""
    properties = message.application_properties or {}
    with span(
        f"process {queue}",
        {Field.QUEUE: queue},
        kind=SpanKind.CONSUMER,
        parent=context_of(properties.get(TRACEPARENT)),
    ) as begun:
        yield begun
