"""Spans of messages: of those taken off queues, and of orders that are handed over to one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import azure.functions as func
from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.trace import Span, SpanKind

from functions.pattern.messages import SubmissionMessage
from functions.pattern.ports import Submissions
from functions.telemetry.fields import Field
from functions.telemetry.spans import TRACEPARENT, context_of, current_traceparent, links_to, span

_SEPARATELY = create_key("separately")


def message_span(queue: str, message: func.ServiceBusMessage) -> AbstractContextManager[Span]:
    """Follow the work on one message of `queue`, in the trace that its sender put on it."""
    parent = context_of((message.application_properties or {}).get(TRACEPARENT))
    return span(f"process {queue}", {Field.QUEUE: queue}, kind=SpanKind.CONSUMER, parent=parent)


class SubmissionSpans:
    """Submits orders, each inside a span: here an order's trace begins, or continues its caller's."""

    def __init__(self, submissions: Submissions) -> None:
        self._submissions = submissions

    async def submit(self, message: SubmissionMessage) -> None:
        """Hand the order over within its caller's trace, or, as one of a batch, in a trace of its own."""
        separately = get_value(_SEPARATELY) is not None
        with span(
            "submit",
            {Field.TASK: message.task_id, Field.WORKFLOW: message.workflow},
            kind=SpanKind.PRODUCER,
            parent=Context() if separately else None,
            links=links_to(current_traceparent()) if separately else (),
        ):
            await self._submissions.submit(message)


@contextmanager
def one_trace_each() -> Iterator[None]:
    """Give each order that is submitted meanwhile a trace of its own, linked to the current span."""
    token = attach(set_value(_SEPARATELY, True))
    try:
        yield
    finally:
        detach(token)
