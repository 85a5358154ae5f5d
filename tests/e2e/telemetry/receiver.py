"""An OTLP/HTTP endpoint that keeps what it receives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.fakes.web_server import served

type Value = str | int | float


@dataclass(frozen=True, slots=True)
class SeenSpan:
    """A span as it arrived; ids are hexadecimal, a root's parent is empty."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    links: frozenset[tuple[str, str]]
    facts: dict[str, Value]


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A log record as it arrived."""

    text: str
    trace: str
    facts: dict[str, Value]


@dataclass(slots=True)
class Receiver:
    """Keeps spans, log records and names of metrics.

    `scopes` names the libraries that made them; `raw` holds every body as it arrived.
    """

    url: str = ""
    spans: list[SeenSpan] = field(default_factory=list)
    records: list[SeenRecord] = field(default_factory=list)
    metrics: set[str] = field(default_factory=set)
    scopes: set[str] = field(default_factory=set)
    raw: list[bytes] = field(default_factory=list)

    def of_task(self, task: str) -> list[SeenSpan]:
        """Return the spans that name a task."""
        return [span for span in self.spans if span.facts.get("task.id") == task]

    def in_trace(self, trace: str) -> dict[str, SeenSpan]:
        """Return the spans of a trace, by id."""
        return {span.id: span for span in self.spans if span.trace == trace}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Receiver]:
        """Serve on a free port."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/traces", self._traces)
        app.router.add_post("/v1/logs", self._logs)
        app.router.add_post("/v1/metrics", self._metrics)
        async with served(app) as self.url:
            yield self

    async def _body(self, request: web.Request) -> bytes:
        body = await request.read()
        self.raw.append(body)
        return body

    async def _traces(self, request: web.Request) -> web.Response:
        got = ExportTraceServiceRequest.FromString(await self._body(request))
        for resource in got.resource_spans:
            for scope in resource.scope_spans:
                self.scopes.add(scope.scope.name)
                self.spans += map(_span, scope.spans)
        return web.Response()

    async def _logs(self, request: web.Request) -> web.Response:
        got = ExportLogsServiceRequest.FromString(await self._body(request))
        for resource in got.resource_logs:
            for scope in resource.scope_logs:
                self.scopes.add(scope.scope.name)
                self.records += map(_record, scope.log_records)
        return web.Response()

    async def _metrics(self, request: web.Request) -> web.Response:
        got = ExportMetricsServiceRequest.FromString(await self._body(request))
        for resource in got.resource_metrics:
            for scope in resource.scope_metrics:
                self.scopes.add(scope.scope.name)
                self.metrics |= {metric.name for metric in scope.metrics}
        return web.Response()


def _span(span: Span) -> SeenSpan:
    links = frozenset((link.trace_id.hex(), link.span_id.hex()) for link in span.links)
    ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
    return SeenSpan(span.name, span.kind, *ids, links, _facts(span.attributes))


def _record(record: LogRecord) -> SeenRecord:
    return SeenRecord(record.body.string_value, record.trace_id.hex(), _facts(record.attributes))


def _facts(pairs: Iterable[KeyValue]) -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    return "" if kind is None else getattr(value, kind)
