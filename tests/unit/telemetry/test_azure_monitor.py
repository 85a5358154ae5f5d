"""In Azure, telemetry goes to Application Insights, by identity where that is asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from azure.identity import ManagedIdentityCredential
from azure.monitor.opentelemetry._constants import _ALL_SUPPORTED_INSTRUMENTED_LIBRARIES

from functions.pattern.errors import SettingsError
from functions.settings import load_settings
from functions.telemetry import azure_monitor
from functions.telemetry.azure_monitor import export_to_azure_monitor
from functions.wiring import start_telemetry

_LOGGER = logging.getLogger("functions.tests.azure_monitor")
_CONNECTION = "InstrumentationKey=00000000-0000-0000-0000-00000000002a"
_SETTINGS = {
    "StateStore": "UseDevelopmentStorage=true",
    "ServiceBusConnection": "Endpoint=sb://127.0.0.1",
    "APPLICATIONINSIGHTS_CONNECTION_STRING": _CONNECTION,
}

type Configured = Callable[..., dict[str, Any]]


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Configured:
    """Tell what the distribution is told for some settings; the logger is as in a new process."""
    monkeypatch.setattr(_LOGGER, "propagate", True)

    def configure(**settings: str) -> dict[str, Any]:
        told: dict[str, Any] = {}
        monkeypatch.setattr(azure_monitor, "configure_azure_monitor", lambda **options: told.update(options))
        for name, value in {**_SETTINGS, **settings}.items():
            monkeypatch.setenv(name, value)
        component = load_settings().application_insights
        assert component
        export_to_azure_monitor(**asdict(component), logger=_LOGGER, also_to_otlp=False)
        return told

    return configure


def test_connection_string_alone_is_enough(configured: Configured) -> None:
    """As on a developer's machine."""
    told = configured()
    assert (told["connection_string"], told["credential"]) == (_CONNECTION, None)


@pytest.mark.parametrize("how", ["ClientId=c-1;Authorization=AAD", "Authorization=AAD"])
def test_identity_is_used_where_it_is_asked_for(configured: Configured, how: str) -> None:
    """The component that the templates make takes nothing else (DisableLocalAuth)."""
    told = configured(APPLICATIONINSIGHTS_AUTHENTICATION_STRING=how)
    assert isinstance(told["credential"], ManagedIdentityCredential)


def test_nothing_else_is_instrumented(configured: Configured) -> None:
    """Instrumentation of libraries tells addresses, paths and queries; each that there is, is off."""
    told = configured()
    off = {name for name, options in told["instrumentation_options"].items() if options == {"enabled": False}}
    assert off == set(_ALL_SUPPORTED_INSTRUMENTED_LIBRARIES)
    assert told["logger_name"] == _LOGGER.name
    assert not told["enable_live_metrics"]


def test_lines_do_not_leave_twice(configured: Configured) -> None:
    """What reaches the root logger is sent by the host; alert rules count lines."""
    configured()
    assert not _LOGGER.propagate


def test_wrong_authentication_string_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the fix, and before anything starts."""
    for name, value in {**_SETTINGS, "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": "AAD"}.items():
        monkeypatch.setenv(name, value)
    fix = r"APPLICATIONINSIGHTS_AUTHENTICATION_STRING is wrong .*: set it to Authorization=AAD"
    with pytest.raises(SettingsError, match=fix):
        load_settings()


def test_wrong_connection_string_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a secret."""
    wrong = {"APPLICATIONINSIGHTS_CONNECTION_STRING": "InstrumentationKey=s3cret"}
    for name, value in {**_SETTINGS, **wrong}.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    with pytest.raises(SettingsError) as failure:
        start_telemetry(settings)
    assert "APPLICATIONINSIGHTS_CONNECTION_STRING" in str(failure.value)
    assert "s3cret" not in f"{failure.value} {failure.value.__cause__} {settings.application_insights}"
