"""Carries a trace from one part to the next, as W3C `traceparent`: on messages, requests and records.

`tracestate` is not carried: it is other systems' own, and a record has no room for what has no bound.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Link, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

#: The name of the HTTP header and of the application property (W3C Trace Context §3.2).
TRACEPARENT: Final = "traceparent"

_W3C = TraceContextTextMapPropagator()


def current_traceparent() -> str | None:
    """Write the current span as 55 characters, or give None when there is no trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get(TRACEPARENT)


def context_of(traceparent: object) -> Context:
    """Make the context of what follows a span elsewhere; without a usable `traceparent`, of a new trace."""
    carrier = {TRACEPARENT: traceparent} if isinstance(traceparent, str) else {}
    return _W3C.extract(carrier, Context())


def links_to(traceparent: str | None) -> list[Link]:
    """Link to a span of another trace, if there is one."""
    linked = get_current_span(context_of(traceparent)).get_span_context()
    return [Link(linked)] if linked.is_valid else []
