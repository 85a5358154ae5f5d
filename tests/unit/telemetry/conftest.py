"""The SDK with exporters in memory, behind the application's own tracer and instruments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as SdkHistogram
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from functions.telemetry import spans as spans_module

type Series = tuple[str, frozenset[tuple[str, object]]]


def series(name: str, **facts: object) -> Series:
    """Name one series of a metric. Names of facts have an underscore for each dot."""
    return name, frozenset((fact.replace("_", "."), value) for fact, value in facts.items())


class Measured:
    """The values that were measured since the last read."""

    def __init__(self, reader: InMemoryMetricReader) -> None:
        self._reader = reader

    def take(self) -> dict[Series, float]:
        """Give counters' values and histograms' sums, by series."""
        return {
            key: point.sum if isinstance(point, HistogramDataPoint) else point.value
            for key, point in self._points(Sum, SdkHistogram)
        }

    def bounds(self, name: str) -> Sequence[float]:
        """Return the bounds of a histogram with values."""
        found = next(point for (metric, _), point in self._points(SdkHistogram) if metric == name)
        assert isinstance(found, HistogramDataPoint)
        return found.explicit_bounds

    def _points(self, *kinds: type) -> list[tuple[Series, NumberDataPoint | HistogramDataPoint]]:
        data = self._reader.get_metrics_data()
        return [
            ((metric.name, frozenset((point.attributes or {}).items())), point)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if isinstance(metric.data, kinds)
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint | HistogramDataPoint)
        ]


@pytest.fixture(scope="session")
def reader() -> InMemoryMetricReader:
    """Read the metrics of this process. A provider cannot be removed, and has no further effect."""
    each_time = AggregationTemporality.DELTA
    reader = InMemoryMetricReader({Counter: each_time, Histogram: each_time})
    set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
    return reader


@pytest.fixture
def measured(reader: InMemoryMetricReader) -> Measured:
    """Measure from zero on."""
    measured = Measured(reader)
    measured.take()
    return measured


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans that have ended."""

    exporter: InMemorySpanExporter

    def all(self) -> tuple[ReadableSpan, ...]:
        """Give them in the order in which they ended."""
        return self.exporter.get_finished_spans()

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of a name."""
        (found,) = [span for span in self.all() if span.name == name]
        return found


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """Collect the spans of the test, and of no other."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans_module, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(spans_module, "_tracer", provider.get_tracer("functions"))
    yield Spans(exporter)
    provider.shutdown()


def traceparent_of(span: ReadableSpan) -> str:
    """Write a span as W3C Trace Context §3.2 has it."""
    context = span.get_span_context()
    assert context
    return _written(context)


def parent_of(span: ReadableSpan) -> str | None:
    """Return the id of the parent span."""
    return None if span.parent is None else format_span_id(span.parent.span_id)


def links_of(span: ReadableSpan) -> list[str]:
    """Write the spans that a span links to."""
    return [_written(link.context) for link in span.links]


def _written(context: SpanContext) -> str:
    return (
        f"00-{format_trace_id(context.trace_id)}-{format_span_id(context.span_id)}-{context.trace_flags:02x}"
    )
