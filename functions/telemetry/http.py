"""Spans of HTTP requests: to this application, and from it to remote services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import Span, SpanKind

from functions.telemetry.fields import Field
from functions.telemetry.spans import TRACEPARENT, context_of, current_traceparent, fail, span

if TYPE_CHECKING:
    from starlette.types import Message, Scope, Send

#: Where a request's scope holds the trace of the host's own span, empty when it has none.
HOST_TRACE = "azure_functions.trace_context"


@contextmanager
def request_span(scope: Scope, send: Send) -> Iterator[Send]:
    """Follow a request to this application; give what its answer is to be sent by.

    It continues the caller's trace, or begins one, and records method, route and status only. Where the host
    made the server span, as in Azure, this one is a child of it.
    """
    hosts = getattr(scope.get(HOST_TRACE), "trace_parent", None)
    kind = SpanKind.INTERNAL if hosts else SpanKind.SERVER
    method: str = scope["method"]
    parent = context_of(hosts or _header(scope, TRACEPARENT))
    with span(method, {Field.METHOD: method}, kind=kind, parent=parent) as begun:

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                _set_status(begun, message["status"], fails_from=HTTPStatus.INTERNAL_SERVER_ERROR)
            await send(message)

        yield answer
        _set_route(begun, method, getattr(scope.get("route"), "path", None))


def _header(scope: Scope, name: str) -> str | None:
    wanted = name.encode()
    values: list[bytes] = [value for key, value in scope["headers"] if key.lower() == wanted]
    return values[0].decode("latin-1") if len(values) == 1 else None


def _set_status(begun: Span, status: int, *, fails_from: HTTPStatus) -> None:
    begun.set_attribute(Field.STATUS, status)
    if status >= fails_from:
        fail(begun, str(status))


def _set_route(begun: Span, method: str, route: Any) -> None:
    """Name the span by its route; a path without a route may hold anything, and is not recorded."""
    if isinstance(route, str):
        begun.set_attribute(Field.ROUTE, route)
        begun.update_name(f"{method} {route}")


@dataclass(frozen=True, slots=True)
class CallSpan:
    """The span of one call; `headers` go with the request."""

    headers: dict[str, str]
    _span: Span

    def answered(self, status: int) -> None:
        """Record the answer's status; 4xx and 5xx are failures (OpenTelemetry, HTTP client spans)."""
        _set_status(self._span, status, fails_from=HTTPStatus.BAD_REQUEST)


@contextmanager
def call_span(service: str, method: str) -> Iterator[CallSpan]:
    """Follow one call of a remote service, which is named by its Agent."""
    facts = {Field.SERVICE: service, Field.METHOD: method}
    with span(f"{method} {service}", facts, kind=SpanKind.CLIENT) as begun:
        traceparent = current_traceparent()
        yield CallSpan({} if traceparent is None else {TRACEPARENT: traceparent}, begun)
