"""Starts the export of telemetry, if a receiver is set. Only then is the SDK imported, which takes a second.

Telemetry is sent to Application Insights, to an OTLP endpoint, to both, or nowhere.
"""

from __future__ import annotations

import atexit
import copy
import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic
from typing import Any

from opentelemetry._logs import get_logger_provider
from opentelemetry.context import get_current
from opentelemetry.metrics import get_meter_provider
from opentelemetry.trace import get_tracer_provider

from functions.telemetry.instruments import FACTS, Fact, Field
from functions.telemetry.spans import attributes, facts_of

#: The instrumentations of the Azure Monitor distribution. They are disabled, as they have no allow-list.
_INSTRUMENTED = (
    *("azure_sdk", "django", "fastapi", "flask", "httpx", "httpx2", "psycopg2", "requests", "urllib"),
    "urllib3",
)
#: The fields of every log record. Fields that a caller adds by `extra=` are not exported.
_OWN = frozenset(vars(logging.makeLogRecord({})))


@dataclass(frozen=True, slots=True)
class ApplicationInsights:
    """The export to Azure: a connection string (secret), and the identity's `client_id`, if user-assigned."""

    connection_string: str = field(repr=False)
    by_identity: bool
    client_id: str | None


def export_telemetry(service_name: str, component: ApplicationInsights | None, *, to_otlp: bool) -> None:
    """Export to Application Insights, an OTLP endpoint, both or nowhere. Raises `ValueError`."""
    # The parent of the application's loggers. Lines of libraries may quote payloads and are not exported.
    logger = logging.getLogger("functions")
    if component is not None:
        export_to_azure_monitor(component, logger, to_otlp=to_otlp)
    elif to_otlp:
        from functions.telemetry.otlp import export_to_otlp  # noqa: PLC0415 - faster start

        export_to_otlp(logger, service_name)
    else:
        return
    # Runs before the SDK's own exit handlers, which wait without a limit.
    providers: Sequence[Any] = (get_tracer_provider(), get_meter_provider(), get_logger_provider())
    atexit.register(shut_down, [each.shutdown for each in providers if hasattr(each, "shutdown")])
    for handler in logger.handlers:
        handler.addFilter(AllowedFields())


def export_to_azure_monitor(component: ApplicationInsights, logger: logging.Logger, *, to_otlp: bool) -> None:
    """Send spans, metrics and the lines of `logger`, now without the host. Raises `ValueError`."""
    from azure.identity import ManagedIdentityCredential  # noqa: PLC0415 - faster start
    from azure.monitor.opentelemetry import configure_azure_monitor  # noqa: PLC0415 - faster start

    identity = ManagedIdentityCredential(client_id=component.client_id) if component.by_identity else None
    beside: dict[str, Any] = {}
    if to_otlp:
        from functions.telemetry.otlp import exporters  # noqa: PLC0415 - faster start

        spans, records, metrics = exporters()
        beside = {"span_processors": [spans], "log_record_processors": [records], "metric_readers": [metrics]}
    configure_azure_monitor(
        connection_string=component.connection_string,
        credential=identity,
        logger_name=logger.name,
        instrumentation_options={name: {"enabled": False} for name in _INSTRUMENTED},
        enable_live_metrics=False,
        enable_performance_counters=False,
        **beside,
    )
    logger.propagate = False


def shut_down(shutdowns: Sequence[Callable[[], None]], *, within: float = 2.0) -> None:
    """Run `shutdowns` in parallel for at most `within` seconds. Each sends its remaining telemetry."""
    until = monotonic() + within
    threads = [Thread(target=each, name="flush telemetry", daemon=True) for each in shutdowns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))


class AllowedFields(logging.Filter):
    """Limits a log record to its text, the facts of its spans, and an exception's class and place."""

    def filter(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the copy that is exported. Other handlers get the record unchanged."""
        exported = copy.copy(record)
        exported.__dict__ = {name: value for name, value in vars(record).items() if name in _OWN}
        exported.exc_info = exported.exc_text = None
        facts: dict[Field, Fact] = {**facts_of(get_current()), **getattr(record, FACTS, {})}
        kind, _, frames = record.exc_info or (None, None, None)
        if kind is not None:
            facts |= {Field.ERROR: kind.__name__, Field.FRAMES: "".join(traceback.format_tb(frames))}
        vars(exported).update(attributes(facts))
        return exported
