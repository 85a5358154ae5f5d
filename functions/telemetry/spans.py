"""The application's spans. Messages, requests and records pass their trace on as W3C `traceparent`.

Spans have facts of the allow-list only. `tracestate`, which may be of any length, is not passed on. Durable
Functions passes Python no trace, so it is recorded with the order. The span of an operator's action, an event
or a cancellation is in the trace of its request, and linked to the trace of the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

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

from functions.core.record import TaskRecord
from functions.telemetry.instruments import Fact, Facts, Field

if TYPE_CHECKING:
    from starlette.types import Message, Scope, Send

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
    """Run the block as a span below `parent` or the current one; log records carry its facts, too."""
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


def attributes(facts: Facts) -> dict[str, Fact]:
    """Return facts as attributes of OpenTelemetry."""
    return {field.value: fact for field, fact in facts.items()}


def facts_of(context: Context) -> Facts:
    """Return the facts of the enclosing spans. A fact of an inner span replaces that of an outer one."""
    return cast("Facts", get_value(_FACTS, context) or {})


def current_traceparent() -> str | None:
    """Return the `traceparent` of the current span (55 characters), None without a trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get(TRACEPARENT)


def trace_headers(traceparent: str | None) -> dict[str, str]:
    """Return the headers, or the properties of a message, that pass a trace on."""
    return {} if traceparent is None else {TRACEPARENT: traceparent}


def context_of(traceparent: object) -> Context:
    """Return the context below a remote span. Without a usable `traceparent`, it begins a new trace."""
    carrier = {TRACEPARENT: traceparent} if isinstance(traceparent, str) else {}
    return _W3C.extract(carrier, Context())


def links_to(traceparent: str | None) -> list[Link]:
    """Return the link to a span of another trace, if there is one."""
    linked = get_current_span(context_of(traceparent)).get_span_context()
    return [Link(linked)] if linked.is_valid else []


def message_span(queue: str, properties: Mapping[str, Any] | None) -> AbstractContextManager[Span]:
    """Return the span of one message of `queue`, in the trace of its sender (in `properties`)."""
    parent = context_of((properties or {}).get(TRACEPARENT))
    return span(f"process {queue}", {Field.QUEUE: queue}, kind=SpanKind.CONSUMER, parent=parent)


#: The key of a request's scope for the trace of the host's span, if the host made one.
HOST_TRACE = "azure_functions.trace_context"


@contextmanager
def request_span(scope: Scope, send: Send) -> Iterator[Send]:
    """Trace a request, below the host's span if there is one. Yield the function that sends the answer."""
    hosts = getattr(scope.get(HOST_TRACE), "trace_parent", None)
    kind = SpanKind.INTERNAL if hosts else SpanKind.SERVER
    method: str = scope["method"]
    values = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == b"traceparent"]
    parent = context_of(hosts or (values[0] if len(values) == 1 else None))
    with span(method, {Field.METHOD: method}, kind=kind, parent=parent) as begun:

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                record_status(begun, message["status"], fails_from=HTTPStatus.INTERNAL_SERVER_ERROR)
            await send(message)

        yield answer
        route = getattr(scope.get("route"), "path", None)
        if isinstance(route, str):  # a path without a route may contain anything, and is not recorded
            begun.set_attribute(Field.ROUTE, route)
            begun.update_name(f"{method} {route}")


def record_status(begun: Span, status: int, *, fails_from: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
    """Record the status of an answer. For a client, 4xx and 5xx are failures (OpenTelemetry, HTTP spans)."""
    begun.set_attribute(Field.STATUS, status)
    if status >= fails_from:
        fail(begun, str(status))


def call_span(service: str, method: str) -> AbstractContextManager[Span]:
    """Return the span of one call of a remote service, which is named by its Agent."""
    facts = {Field.SERVICE: service, Field.METHOD: method}
    return span(f"{method} {service}", facts, kind=SpanKind.CLIENT)


def run_span(task: str, workflow: str, epoch: int, traceparent: str | None) -> AbstractContextManager[Span]:
    """Return the span of a run of the Scheduler of `epoch`.

    `traceparent` (W3C) is the span of the submission. Without a usable one, the run begins a trace.
    """
    facts: Facts = {Field.TASK: task, Field.WORKFLOW: workflow, Field.EPOCH: epoch}
    return span("run_agents", facts, parent=context_of(traceparent))


def step_span(step: str, item: int | None, *, agent: str, direction: str) -> AbstractContextManager[Span]:
    """Return the span of a call, a request or a look-up, below the span of its run and with its facts.

    `item` is the number of the item of a for-each step, from 0.
    """
    facts: Facts = {
        **facts_of(get_current()),
        Field.STEP: step,
        **({} if item is None else {Field.ITEM: item}),
        Field.AGENT: agent,
        Field.DIRECTION: direction,
    }
    return span(f"step {step}", facts)


def decision_span(record: TaskRecord, decision: str) -> AbstractContextManager[Span]:
    """Return the span of a decision about a task, linked to the trace of the task."""
    facts: Facts = {
        Field.TASK: record.order.task,
        Field.WORKFLOW: record.order.workflow,
        Field.EPOCH: record.epoch,
        Field.DECISION: decision,
    }
    return span(decision, facts, links=links_to(record.order.traceparent))
