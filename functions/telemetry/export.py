"""Starts the export of telemetry, if the settings name a place for it, and ends it with the process.

Otherwise OpenTelemetry's SDK is not even imported: the late imports here take more than a second of a start.
"""

from __future__ import annotations

import atexit
import copy
import logging
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from threading import Thread
from time import monotonic
from typing import Any

from opentelemetry._logs import get_logger_provider
from opentelemetry.context import get_current
from opentelemetry.metrics import get_meter_provider
from opentelemetry.trace import get_tracer_provider

from functions.telemetry.fields import FACTS, Facts, Field, attributes
from functions.telemetry.spans import facts_of

#: What every log record has; what others add to it (`extra=`) is not on the allow-list.
_OWN = frozenset(vars(logging.makeLogRecord({})))


@dataclass(frozen=True, slots=True)
class ApplicationInsights:
    """Where telemetry goes in Azure: by the connection string, a secret, alone, or by managed identity, too.

    `client_id` names the identity when it is user-assigned.
    """

    connection_string: str = field(repr=False)
    by_identity: bool
    client_id: str | None


def export_telemetry(service_name: str, component: ApplicationInsights | None, *, to_otlp: bool) -> None:
    """Export to Application Insights, to an OTLP endpoint, to both, or nowhere.

    Raises `ValueError` when the connection string is wrong.
    """
    # The application's own loggers lie below this one; other libraries' lines may quote what they handle.
    logger = logging.getLogger("functions")
    if component is not None:
        from functions.telemetry.azure_monitor import export_to_azure_monitor  # noqa: PLC0415 - see above

        export_to_azure_monitor(**asdict(component), logger=logger, also_to_otlp=to_otlp)
    elif to_otlp:
        from functions.telemetry.otlp import export_to_otlp  # noqa: PLC0415 - see above

        export_to_otlp(logger, service_name)
    else:
        return
    # Before the SDK itself does so and waits for them.
    providers: Sequence[Any] = (get_tracer_provider(), get_meter_provider(), get_logger_provider())
    atexit.register(shut_down, [each.shutdown for each in providers if hasattr(each, "shutdown")])
    for handler in logger.handlers:
        handler.addFilter(AllowedFields())


def shut_down(shutdowns: Sequence[Callable[[], None]], *, within: float = 2.0) -> None:
    """Run `shutdowns`, which send what is left, side by side, for `within` seconds at most.

    In that time each makes a connection, a token, and the request; the SDK would take half a minute.
    """
    until = monotonic() + within
    threads = [Thread(target=each, name="flush telemetry", daemon=True) for each in shutdowns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))


class AllowedFields(logging.Filter):
    """Gives an exporting handler a record of its own: its text, and the facts of the enclosing spans.

    An exception is exported as its class and its place in the code: its text may quote a payload. The
    exporting handler adds trace and span ids.
    """

    def filter(self, record: logging.LogRecord) -> logging.LogRecord:
        """Make the record that is exported; the one that other handlers get stays as it is."""
        exported = copy.copy(record)
        exported.__dict__ = {name: value for name, value in vars(record).items() if name in _OWN}
        exported.exc_info = exported.exc_text = None
        own: Facts = getattr(record, FACTS, {})
        vars(exported).update(attributes({**facts_of(get_current()), **own, **_failure(record)}))
        return exported


def _failure(record: logging.LogRecord) -> Facts:
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    kind, _, frames = record.exc_info
    return {Field.ERROR: kind.__name__, Field.FRAMES: "".join(traceback.format_tb(frames))}
