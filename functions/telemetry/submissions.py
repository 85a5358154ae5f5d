"""Spans of orders that are handed over: here an order's trace begins, or goes on with its caller's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.trace import SpanKind

from functions.pattern.messages import SubmissionMessage
from functions.pattern.ports import Submissions
from functions.pattern.records import Order
from functions.telemetry.fields import Field
from functions.telemetry.propagation import current_traceparent, links_to
from functions.telemetry.spans import span

_SEPARATELY = create_key("separately")


class SubmissionSpans:
    """Submits orders, each inside a span."""

    def __init__(self, submissions: Submissions) -> None:
        self._submissions = submissions

    async def submit(self, message: SubmissionMessage, order: Order) -> None:
        """Hand the order over as one of its caller's trace, or, out of many, under a trace of its own."""
        separately = get_value(_SEPARATELY) is not None
        with span(
            "submit",
            {Field.TASK: order.task, Field.WORKFLOW: order.workflow},
            kind=SpanKind.PRODUCER,
            parent=Context() if separately else None,
            links=links_to(current_traceparent()) if separately else (),
        ):
            await self._submissions.submit(message, order)


@contextmanager
def one_trace_each() -> Iterator[None]:
    """Give each order that is submitted meanwhile a trace of its own, linked to the current span."""
    token = attach(set_value(_SEPARATELY, True))
    try:
        yield
    finally:
        detach(token)
