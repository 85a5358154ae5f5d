"""Settings and host.json: what is read, what overrides what, and error messages."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from functions_local.configuration import AppSettings, HostJson, StartError, load_host_json
from functions_local.times import parse_timespan


def host_json(folder: Path, text: str) -> HostJson:
    """Write and load a host.json."""
    (folder / "host.json").write_text(text)
    return load_host_json(folder)


def test_environment_wins_over_the_file(tmp_path: Path) -> None:
    """A setting in both has the environment's value."""
    (tmp_path / "local.settings.json").write_text('{"Values": {"A": "file", "B": "file"}}')
    assert AppSettings.load(tmp_path, {"B": "environment"}).values == {"A": "file", "B": "environment"}


@pytest.mark.parametrize("text", ["{", "[]", '{"Values": {"A": 1}}'])
def test_settings_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    """Not JSON, not an object, or a value that is not a string."""
    (tmp_path / "local.settings.json").write_text(text)
    with pytest.raises(StartError, match=r"local\.settings\.json"):
        AppSettings.load(tmp_path, {})


def test_placeholder_is_replaced_by_its_setting() -> None:
    """Also within other text; the error names a missing setting and what uses it."""
    settings = AppSettings({"Q": "orders"})
    assert settings.resolve("x-%Q%", used_by="f") == "x-orders"
    with pytest.raises(StartError, match="function f needs the setting NO"):
        settings.resolve("%NO%", used_by="function f")


@pytest.mark.parametrize(
    ("name", "value", "disabled"),
    [
        ("AzureWebJobs.f.Disabled", "true", True),
        ("AzureWebJobs_f_Disabled", "1", True),
        ("AzureWebJobs.f.Disabled", "0", False),
    ],
)
def test_function_is_disabled_by_a_setting(name: str, value: str, disabled: bool) -> None:  # noqa: FBT001 - a table's column
    """In both spellings."""
    assert AppSettings({name: value}).disabled("f") is disabled
    assert not AppSettings({name: value}).disabled("g")


def test_host_json_defaults_are_the_extensions() -> None:
    """An empty host.json means what it means in Azure."""
    options = HostJson().extensions
    assert options.http.route_prefix == "api"
    assert options.service_bus.max_concurrent_calls == 16
    assert options.service_bus.max_message_batch_size == 1000
    assert options.service_bus.max_auto_lock_renewal_duration == timedelta(minutes=5)


def test_host_json_values_are_read(tmp_path: Path) -> None:
    """Names in camelCase, durations as TimeSpan; unknown keys are ignored."""
    text = """{"version": "2.0", "functionTimeout": "00:10:00", "logging": {}, "extensions": {
        "http": {"routePrefix": ""}, "eventHubs": {},
        "serviceBus": {"prefetchCount": 5, "maxAutoLockRenewalDuration": "00:01:00"},
        "durableTask": {"hubName": "Hub", "maxConcurrentActivityFunctions": 3}}}"""
    loaded = host_json(tmp_path, text)
    assert loaded.function_timeout == timedelta(minutes=10)
    assert loaded.extensions.http.route_prefix == ""
    assert loaded.extensions.service_bus.prefetch_count == 5
    assert loaded.extensions.service_bus.max_auto_lock_renewal_duration == timedelta(minutes=1)
    assert loaded.extensions.durable_task.hub_name == "Hub"
    assert loaded.extensions.durable_task.max_concurrent_activity_functions == 3


def test_function_timeout_may_be_off(tmp_path: Path) -> None:
    """-1 is Azure's "no limit"."""
    assert host_json(tmp_path, '{"functionTimeout": "-1"}').function_timeout is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"functionTimeout": "soon"}', "functionTimeout"),
        (
            '{"extensions": {"serviceBus": {"maxConcurrentCalls": 0}}}',
            "extensions.serviceBus.maxConcurrentCalls",
        ),
        ("{", "the file"),
    ],
)
def test_wrong_host_json_names_the_place(tmp_path: Path, text: str, place: str) -> None:
    """With the name as spelled in the file."""
    with pytest.raises(StartError, match=f"host.json: {place}: "):
        host_json(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:00:01", 1), ("1.00:00:00", 86400), ("00:01:00.5", 60.5), ("2:03:04", 7384)]
)
def test_timespan(text: str, seconds: float) -> None:
    """Days and fractions are optional."""
    assert parse_timespan(text).total_seconds() == seconds
