"""Export to an OTLP endpoint, which the SDK reads from `OTEL_EXPORTER_OTLP_*`; imported only when set."""

from __future__ import annotations

import logging

from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.logging.handler import LoggingHandler
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import set_tracer_provider


def exporters() -> tuple[BatchSpanProcessor, BatchLogRecordProcessor, PeriodicExportingMetricReader]:
    """Return the exporters of spans, log records and metrics.

    Metrics are exported each minute unless `OTEL_METRIC_EXPORT_INTERVAL` says otherwise.
    """
    return (
        BatchSpanProcessor(OTLPSpanExporter()),
        BatchLogRecordProcessor(OTLPLogExporter()),
        PeriodicExportingMetricReader(OTLPMetricExporter()),
    )


def export_to_otlp(logger: logging.Logger, service: str) -> None:
    """Send spans, metrics and the lines of `logger` and its children, under the name `service`."""
    resource = Resource.create({SERVICE_NAME: service})
    span_exporter, record_exporter, metric_exporter = exporters()
    spans = TracerProvider(resource=resource)
    spans.add_span_processor(span_exporter)
    set_tracer_provider(spans)
    set_meter_provider(MeterProvider([metric_exporter], resource=resource))
    records = LoggerProvider(resource=resource)
    records.add_log_record_processor(record_exporter)
    set_logger_provider(records)
    logger.addHandler(LoggingHandler(logger_provider=records))
