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


def span_processor() -> BatchSpanProcessor:
    """Make what sends spans."""
    return BatchSpanProcessor(OTLPSpanExporter())


def log_record_processor() -> BatchLogRecordProcessor:
    """Make what sends log records."""
    return BatchLogRecordProcessor(OTLPLogExporter())


def metric_reader() -> PeriodicExportingMetricReader:
    """Make what reads and sends metrics, each minute unless `OTEL_METRIC_EXPORT_INTERVAL` says otherwise."""
    return PeriodicExportingMetricReader(OTLPMetricExporter())


def export_to_otlp(logger: logging.Logger, service: str) -> None:
    """Send spans, metrics and what `logger` and those below it write, under the name `service`."""
    resource = Resource.create({SERVICE_NAME: service})
    spans = TracerProvider(resource=resource)
    spans.add_span_processor(span_processor())
    set_tracer_provider(spans)
    set_meter_provider(MeterProvider([metric_reader()], resource=resource))
    records = LoggerProvider(resource=resource)
    records.add_log_record_processor(log_record_processor())
    set_logger_provider(records)
    logger.addHandler(LoggingHandler(logger_provider=records))
