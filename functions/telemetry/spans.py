"""Spans of our own, and the trace that they pass on as W3C `traceparent`: on messages, requests and records.

They carry facts of the allow-list only. `tracestate`, which may be of any length, is not passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, cast

from opentelemetry.context import Context, attach, create_key, detach, get_current, get_value, set_value
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    ProxyTracerProvider,
    Span,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    get_tracer,
    get_tracer_provider,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from functions.telemetry.fields import Facts, Field, attributes

#: The name of the HTTP header and of the application property (W3C Trace Context §3.2).
TRACEPARENT: Final = "traceparent"

_W3C = TraceContextTextMapPropagator()
_tracer = get_tracer("functions")
_FACTS = create_key("facts")


@contextmanager
def span(
    name: str,
    facts: Facts,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: Context | None = None,
    links: Sequence[Link] = (),
) -> Iterator[Span]:
    """Run the block as one span, below `parent` or else below the current one.

    Log records that are written meanwhile carry its facts, too. When nothing is exported, it does nothing.
    """
    if isinstance(get_tracer_provider(), ProxyTracerProvider):
        yield INVALID_SPAN
        return
    above = get_current() if parent is None else parent
    token = attach(set_value(_FACTS, {**facts_of(above), **facts}, above))
    try:
        with _tracer.start_as_current_span(
            name,
            kind=kind,
            attributes=attributes(facts),
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as begun:
            try:
                yield begun
            except Exception as error:
                fail(begun, type(error).__name__)
                raise
    finally:
        detach(token)


def fail(failed: Span, reason: str) -> None:
    """Mark a span as failed; `reason` is an exception's class, or a status."""
    failed.set_attribute(Field.ERROR, reason)
    failed.set_status(Status(StatusCode.ERROR))


def facts_of(context: Context) -> Facts:
    """Give the facts of the enclosing spans, the inner ones before the outer."""
    return cast("Facts", get_value(_FACTS, context) or {})


def current_traceparent() -> str | None:
    """Write the current span as 55 characters, or give None when there is no trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get(TRACEPARENT)


def context_of(traceparent: object) -> Context:
    """Make the context below a span elsewhere; without a usable `traceparent`, that of a new trace."""
    carrier = {TRACEPARENT: traceparent} if isinstance(traceparent, str) else {}
    return _W3C.extract(carrier, Context())


def links_to(traceparent: str | None) -> list[Link]:
    """Link to a span of another trace, if there is one."""
    linked = get_current_span(context_of(traceparent)).get_span_context()
    return [Link(linked)] if linked.is_valid else []
