"""Export to Application Insights, and to an OTLP endpoint beside it. Imported only when it is set."""

from __future__ import annotations

import logging

from azure.identity import ManagedIdentityCredential
from azure.monitor.opentelemetry import configure_azure_monitor

from functions.telemetry import otlp

#: The distribution's own instrumentation, none of which has an allow-list.
_INSTRUMENTED = (
    *("azure_sdk", "django", "fastapi", "flask", "httpx", "httpx2", "psycopg2", "requests", "urllib"),
    "urllib3",
)


def export_to_azure_monitor(
    *,
    connection_string: str,
    by_identity: bool,
    client_id: str | None,
    logger: logging.Logger,
    also_to_otlp: bool,
) -> None:
    """Send spans, metrics and `logger`'s lines, which the host then no longer sends. Raises `ValueError`."""
    configure_azure_monitor(
        connection_string=connection_string,
        credential=ManagedIdentityCredential(client_id=client_id) if by_identity else None,
        logger_name=logger.name,
        instrumentation_options={name: {"enabled": False} for name in _INSTRUMENTED},
        enable_live_metrics=False,
        enable_performance_counters=False,
        span_processors=[otlp.span_processor()] if also_to_otlp else [],
        log_record_processors=[otlp.log_record_processor()] if also_to_otlp else [],
        metric_readers=[otlp.metric_reader()] if also_to_otlp else [],
    )
    logger.propagate = False
