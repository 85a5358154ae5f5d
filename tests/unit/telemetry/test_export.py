"""Telemetry is exported only where the settings say, with allowed fields, and without delay."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import socket
from threading import Event
from typing import Any

import pytest
from azure.identity import ManagedIdentityCredential
from azure.monitor.opentelemetry._constants import _ALL_SUPPORTED_INSTRUMENTED_LIBRARIES
from opentelemetry.context import get_current
from opentelemetry.trace import INVALID_SPAN

from functions.connections import SettingsError
from functions.settings import load_settings
from functions.telemetry.export import AllowedFields, export_to_azure_monitor, shut_down
from functions.telemetry.instruments import Facts, Field, record_action
from functions.telemetry.spans import span
from functions.wiring import start_telemetry
from functions.workflows.registry import load_registrations
from tests.e2e.telemetry.receiver import Receiver
from tests.fakes.application import SETTINGS, agent_addresses

_ROOT = Path(__file__).parents[3]
#: Starts the application as the host does, but for the tables, and names what was imported for telemetry.
_START = """
import json, sys
from functions.wiring import Wiring
Wiring.prepare = lambda self: None
import function_app
function_app.app.get_functions()
heavy = ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.instrumentation", "azure.monitor")
print(json.dumps(sorted(name for name in sys.modules if name.startswith(heavy))))
"""


def _imported(settings: dict[str, str]) -> list[str]:
    started = subprocess.run(
        [sys.executable, "-c", _START],
        cwd=_ROOT,
        env={**SETTINGS, **agent_addresses(load_registrations()), **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert started.returncode == 0, started.stderr
    imported: list[str] = json.loads(started.stdout.splitlines()[-1])
    return imported


@pytest.mark.process
def test_each_place_brings_its_own_exporter() -> None:
    """With an OTLP endpoint, nothing of Azure's is imported; the endpoint need not be there."""
    imported = _imported({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"})
    assert "opentelemetry.sdk.trace" in imported
    assert not [name for name in imported if name.startswith("azure.monitor")]


def test_no_span_is_made_when_nothing_is_set() -> None:
    """Telemetry costs a step nothing then."""
    before = get_current()
    with span("step pick", {Field.STEP: "pick"}) as begun:
        assert (begun, get_current()) == (INVALID_SPAN, before)


def test_all_is_sent_side_by_side() -> None:
    """An exporter that hangs delays no other one, and no caller."""
    released, sent = Event(), Event()
    hang: Any = released.wait
    shut_down([hang, sent.set], within=0.2)
    assert sent.wait(60)
    assert not released.is_set()
    released.set()


#: Ends with a span and a log record that no exporter has sent, since each delay is an hour.
_END = """
import logging
from functions.telemetry.export import export_telemetry
from functions.telemetry.spans import span
export_telemetry("test", None, to_otlp=True)
with span("last", {}):
    logging.getLogger("functions.tests").warning("the last line")
"""


@pytest.mark.process
async def test_process_that_ends_sends_what_is_left() -> None:
    """Spans and log records reach the collector; one that never replies delays the end by 2 s only."""

    async def end(url: str) -> None:
        delays = ("OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY", "OTEL_METRIC_EXPORT_INTERVAL")
        settings = {**dict.fromkeys(delays, "3600000"), "OTEL_EXPORTER_OTLP_ENDPOINT": url}
        settings |= {"OTEL_EXPORTER_OTLP_TIMEOUT": "3600", "PATH": os.environ["PATH"]}
        command = [sys.executable, "-c", _END]
        await asyncio.to_thread(subprocess.run, command, cwd=_ROOT, env=settings, check=True, timeout=60)

    async with Receiver().serving() as receiver:
        await end(receiver.url)
        assert [each.name for each in receiver.spans] == ["last"]
        assert [each.text for each in receiver.records] == ["the last line"]
    with socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        await end(f"http://127.0.0.1:{silent.getsockname()[1]}")


_LOGGER = logging.getLogger("functions.tests.azure_monitor")
_DISTRIBUTION = "azure.monitor.opentelemetry.configure_azure_monitor"
_CONNECTION = "InstrumentationKey=00000000-0000-0000-0000-00000000002a"
_AZURE = {**SETTINGS, "APPLICATIONINSIGHTS_CONNECTION_STRING": _CONNECTION}

type Configured = Callable[..., dict[str, Any]]


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Configured:
    """Return the options of the distribution for some settings. The logger is as in a new process."""
    monkeypatch.setattr(_LOGGER, "propagate", True)

    def configure(**settings: str) -> dict[str, Any]:
        told: dict[str, Any] = {}
        monkeypatch.setattr(_DISTRIBUTION, lambda **options: told.update(options))
        for name, value in {**_AZURE, **settings}.items():
            monkeypatch.setenv(name, value)
        component = load_settings().application_insights
        assert component
        export_to_azure_monitor(component, _LOGGER, to_otlp=False)
        return told

    return configure


@pytest.mark.parametrize("how", ["ClientId=c-1;Authorization=AAD", "Authorization=AAD"])
def test_identity_is_used_where_it_is_asked_for(configured: Configured, how: str) -> None:
    """The component of the templates accepts no other credential (DisableLocalAuth)."""
    told = configured(APPLICATIONINSIGHTS_AUTHENTICATION_STRING=how)
    assert isinstance(told["credential"], ManagedIdentityCredential)


def test_nothing_else_is_instrumented(configured: Configured) -> None:
    """Instrumentation of libraries tells addresses, paths and queries; the host sends the root logger's.

    A connection string alone is enough, as on a developer's machine.
    """
    told = configured()
    assert (told["connection_string"], told["credential"]) == (_CONNECTION, None)
    off = {name for name, options in told["instrumentation_options"].items() if options == {"enabled": False}}
    assert off == set(_ALL_SUPPORTED_INSTRUMENTED_LIBRARIES)
    assert (told["logger_name"], _LOGGER.propagate) == (_LOGGER.name, False)
    assert not told["enable_live_metrics"]
    assert not told["enable_performance_counters"]


def test_wrong_connection_string_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a secret."""
    wrong = {"APPLICATIONINSIGHTS_CONNECTION_STRING": "InstrumentationKey=s3cret"}
    for name, value in {**_AZURE, **wrong}.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    with pytest.raises(SettingsError) as failure:
        start_telemetry(settings)
    assert "APPLICATIONINSIGHTS_CONNECTION_STRING" in str(failure.value)
    assert "s3cret" not in f"{failure.value} {failure.value.__cause__} {settings.application_insights}"


_log = logging.getLogger("functions.tests.telemetry")
_PLAIN = frozenset(vars(logging.makeLogRecord({})))


class _Exported(logging.Handler):
    """Keeps what an exporting handler would get."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.addFilter(AllowedFields())

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def exported() -> Iterator[_Exported]:
    """Export from one logger."""
    handler = _Exported()
    _log.addHandler(handler)
    yield handler
    _log.removeHandler(handler)


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _PLAIN}


@pytest.mark.usefixtures("spans")
def test_record_carries_the_facts_of_the_spans_around(exported: _Exported) -> None:
    """Task, epoch and step, the inner span's before the outer's."""
    inner: Facts = {Field.STEP: "drone", Field.EPOCH: 2}
    with span("outer", {Field.TASK: "t-1", Field.EPOCH: 1}), span("inner", inner):
        _log.warning("drone answered %d", 503)
    _log.warning("afterwards")
    inside, outside = exported.records
    assert inside.getMessage() == "drone answered 503"
    assert _facts(inside) == {"task.id": "t-1", "task.epoch": 2, "step.name": "drone"}
    assert _facts(outside) == {}


def test_what_is_not_on_the_allow_list_stays_here(exported: _Exported) -> None:
    """The fields of a line beside its text."""
    _log.warning("submitted", extra={"payload": "s3cret", "task.note": "s3cret"})
    assert "s3cret" not in str(vars(exported.records[0]))


def test_exception_leaves_by_class_and_place(exported: _Exported, caplog: pytest.LogCaptureFixture) -> None:
    """Its text may quote a payload, so only file, line and code are exported. Other handlers get it whole."""
    try:
        int("S3CRET".lower())
    except ValueError:
        _log.exception("claim failed", extra={"hint": "look here"})
    [record] = exported.records
    facts = _facts(record)
    assert facts["error.type"] == "ValueError"
    assert "test_exception_leaves_by_class_and_place" in str(facts["error.frames"])
    assert (record.exc_info, record.exc_text) == (None, None)
    assert "s3cret" not in str(vars(record))
    [whole] = caplog.records
    assert whole.exc_info
    assert vars(whole)["hint"] == "look here"
    assert record is not whole


def test_operators_action_is_an_event_with_who_did_what(caplog: pytest.LogCaptureFixture) -> None:
    """As an event it goes to a table of its own, with its own retention; the reason stays."""
    handler, logger = _Exported(), logging.getLogger("functions.telemetry.instruments")
    logger.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, logger.name):
            record_action("ada", "resubmit", "tasks/order-1")
    finally:
        logger.removeHandler(handler)
    [record] = handler.records
    assert _facts(record) == {
        "microsoft.custom_event.name": "operator action",
        "operator.name": "ada",
        "task.decision": "resubmit",
        "operator.target": "tasks/order-1",
    }
