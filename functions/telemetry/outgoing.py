"""Spans of calls to remote services, which get the trace in their `traceparent` header."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.trace import Span, SpanKind

from functions.telemetry.fields import Field
from functions.telemetry.propagation import TRACEPARENT, current_traceparent
from functions.telemetry.spans import fail, span

_REFUSALS = 400


@dataclass(frozen=True, slots=True)
class CallSpan:
    """The span of one call, which is told its answer's status; `headers` go with the request."""

    headers: dict[str, str]
    _span: Span

    def answered(self, status: int) -> None:
        """Tell the status; 4xx and 5xx are failures to who calls (OpenTelemetry, HTTP client spans)."""
        self._span.set_attribute(Field.STATUS, status)
        if status >= _REFUSALS:
            fail(self._span, str(status))


@contextmanager
def call_span(service: str, method: str) -> Iterator[CallSpan]:
    """Follow one call of a remote service, which is told by its Agent's name."""
    facts = {Field.SERVICE: service, Field.METHOD: method}
    with span(f"{method} {service}", facts, kind=SpanKind.CLIENT) as begun:
        traceparent = current_traceparent()
        yield CallSpan({} if traceparent is None else {TRACEPARENT: traceparent}, begun)
