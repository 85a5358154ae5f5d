"""Spans of messages: of those taken off queues, and of orders that are handed over to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind

from functions.pattern.messages import SubmissionMessage
from functions.pattern.ports import Submissions
from functions.telemetry.fields import Field
from functions.telemetry.spans import TRACEPARENT, context_of, current_traceparent, links_to, span


def message_span(queue: str, properties: Mapping[str, Any] | None) -> AbstractContextManager[Span]:
    """Follow the work on one message of `queue`, in the trace that its sender put into its `properties`."""
    parent = context_of((properties or {}).get(TRACEPARENT))
    return span(f"process {queue}", {Field.QUEUE: queue}, kind=SpanKind.CONSUMER, parent=parent)


class SubmissionSpans:
    """Submits orders, each inside a span: here an order's trace begins, or continues its caller's."""

    def __init__(self, submissions: Submissions) -> None:
        self._submissions = submissions

    async def submit(self, message: SubmissionMessage) -> None:
        """Hand the order over within its caller's trace."""
        with _submit_span(message):
            await self._submissions.submit(message)

    async def submit_all(
        self, messages: Sequence[SubmissionMessage], _traces: Sequence[str | None] = ()
    ) -> Sequence[BaseException | None]:
        """Hand the orders over, each in a trace of its own, linked to the request."""
        traces, request = list[str | None](), links_to(current_traceparent())
        for message in messages:
            with _submit_span(message, parent=Context(), links=request):
                traces.append(current_traceparent())
        return await self._submissions.submit_all(messages, traces)


def _submit_span(
    message: SubmissionMessage, *, parent: Context | None = None, links: Sequence[Link] = ()
) -> AbstractContextManager[Span]:
    facts = {Field.TASK: message.task_id, Field.WORKFLOW: message.workflow}
    return span("submit", facts, kind=SpanKind.PRODUCER, parent=parent, links=links)
