"""Spans of our own: they carry facts of the allow-list only, and never an exception's text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from opentelemetry.context import Context, attach, create_key, detach, get_current, get_value, set_value
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    ProxyTracerProvider,
    Span,
    SpanKind,
    Status,
    StatusCode,
    get_tracer,
    get_tracer_provider,
)

from functions.telemetry.fields import Facts, Field, attributes

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
    """Do what is inside as one span, below `parent` or else below the current one.

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
    """Give the facts that the spans around tell, the inner ones before the outer."""
    return cast("Facts", get_value(_FACTS, context) or {})
