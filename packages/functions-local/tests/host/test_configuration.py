"""Settings and host.json: what is read, what overrides what, and error messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from functions_local.configuration import AppSettings, StartError
from functions_local.host_json import HostJson, StartType, load_host_json
from functions_local.times import parse_timespan


def host_json(folder: Path, text: str, **settings: str) -> HostJson:
    """Write and load a host.json."""
    (folder / "host.json").write_text(text)
    return load_host_json(folder, AppSettings(settings))


def test_settings_file_is_read_as_core_tools_read_it(tmp_path: Path) -> None:
    """Names in any case of their letters, a section that is null, false as text."""
    (tmp_path / "local.settings.json").write_text('{"isEncrypted": "False", "values": {"A": "a"}}')
    assert AppSettings.load(tmp_path, {}) == AppSettings({"A": "a"})
    (tmp_path / "local.settings.json").write_text('{"Values": null}')
    assert AppSettings.load(tmp_path, {}) == AppSettings({})


def test_encrypted_settings_are_refused(tmp_path: Path) -> None:
    """Their values would be taken for the app's; the line says how to decrypt them."""
    (tmp_path / "local.settings.json").write_text('{"IsEncrypted": true, "Values": {"A": "gibberish"}}')
    with pytest.raises(StartError, match="is encrypted: run `func settings decrypt`"):
        AppSettings.load(tmp_path, {})


@pytest.mark.parametrize("text", ["{", "[]", '{"Values": {"A": 1}}', '{"Values": {"A": /* x "a"}}'])
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
    hubs = options.event_hubs
    assert (hubs.max_event_batch_size, hubs.prefetch_count, hubs.batch_checkpoint_frequency) == (100, 300, 1)
    assert (hubs.enable_checkpointing, hubs.initial_offset_options.type) == (True, StartType.FROM_START)
    assert hubs.load_balancing_update_interval == timedelta(seconds=30)


def test_host_json_values_are_read(tmp_path: Path) -> None:
    """Names in camelCase, durations as TimeSpan; unknown keys are ignored."""
    text = """{"version": "2.0", "functionTimeout": "00:10:00", "logging": {}, "extensions": {
        "http": {"routePrefix": ""}, "eventHubs": {},
        "serviceBus": {"prefetchCount": 5, "maxAutoLockRenewalDuration": "00:01:00"},
        "durableTask": {"hubName": "Hub", "maxConcurrentActivityFunctions": 3, "defaultVersion": "1"}}}"""
    loaded = host_json(tmp_path, text)
    assert loaded.function_timeout == timedelta(minutes=10)
    assert loaded.extensions.http.route_prefix == ""
    assert loaded.extensions.service_bus.prefetch_count == 5
    assert loaded.extensions.service_bus.max_auto_lock_renewal_duration == timedelta(minutes=1)
    assert loaded.extensions.durable_task.hub_name == "Hub"
    assert loaded.extensions.durable_task.max_concurrent_activity_functions == 3
    assert loaded.extensions.durable_task.default_version == "1"


def test_where_hubs_begin_is_read_in_any_case(tmp_path: Path) -> None:
    """A time is read with its zone."""
    text = """{"extensions": {"eventHubs": {"initialOffsetOptions": {
        "type": "FromEnqueuedTime", "enqueuedTimeUtc": "2026-11-01T00:00:00Z"}}}}"""
    initial = host_json(tmp_path, text).extensions.event_hubs.initial_offset_options
    assert initial.type is StartType.FROM_ENQUEUED_TIME
    assert initial.enqueued_time_utc == datetime(2026, 11, 1, tzinfo=UTC)


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
        ('{"extensions": {"eventHubs": {"minEventBatchSize": 5}}}', "extensions.eventHubs.minEventBatchSize"),
        (
            '{"extensions": {"eventHubs": {"initialOffsetOptions": {"type": "fromEnqueuedTime"}}}}',
            "extensions.eventHubs.initialOffsetOptions",
        ),
        ('{"functionTimeout": []}', "functionTimeout"),
        ('{"functionTimeout": 300}', "functionTimeout"),
        ('{"functionTimeout": "00:00:00.9"}', "functionTimeout"),
    ],
)
def test_wrong_host_json_names_the_place(tmp_path: Path, text: str, place: str) -> None:
    """With the name as spelled in the file."""
    with pytest.raises(StartError, match=f"host.json: {place}: "):
        host_json(tmp_path, text)


def test_host_json_that_is_no_json_is_named(tmp_path: Path) -> None:
    """With the place of the error."""
    with pytest.raises(StartError, match=r"host\.json is not valid JSON: .* line 1"):
        host_json(tmp_path, "{")


def test_comments_a_mark_and_last_commas_are_read(tmp_path: Path) -> None:
    """As in Azure, in both files; what looks like a comment in a string is none."""
    text = """\ufeff// made by hand
    {"extensions": {"http": {"routePrefix": "a//b", /* "routePrefix": "x", */
        "customHeaders": {"X": "/* \\" , } */",}, }, }, // the end
    }"""
    loaded = host_json(tmp_path, text).extensions.http
    assert (loaded.route_prefix, loaded.custom_headers) == ("a//b", {"X": '/* " , } */'})
    (tmp_path / "local.settings.json").write_text('\ufeff{"Values": {"A": "http://x"} /* no more */ }')
    assert AppSettings.load(tmp_path, {}).values == {"A": "http://x"}


def test_settings_override_host_json(tmp_path: Path) -> None:
    """Their names are paths, with `__` or `:`, in any case of the letters, also where the file has none."""
    text = '{"extensions": {"HTTP": {"routePrefix": "api"}}}'
    settings = {
        "AzureFunctionsJobHost__extensions__http__RoutePrefix": "v1",
        "AzureFunctionsJobHost:functionTimeout": "00:01:00",
        "azurefunctionsjobhost__extensions__serviceBus__maxConcurrentCalls": "3",
        "AzureFunctionsJobHost__extensions__serviceBus__autoCompleteMessages": "false",
    }
    loaded = host_json(tmp_path, text, **settings)
    assert loaded.extensions.http.route_prefix == "v1"
    assert loaded.function_timeout == timedelta(minutes=1)
    assert loaded.extensions.service_bus.max_concurrent_calls == 3
    assert not loaded.extensions.service_bus.auto_complete_messages


def test_hub_name_may_be_a_setting(tmp_path: Path) -> None:
    """So that two copies of an app have a hub each; a missing setting is named."""
    text = '{"extensions": {"durableTask": {"hubName": "%HUB%"}}}'
    assert host_json(tmp_path, text, HUB="Mine").extensions.durable_task.hub_name == "Mine"
    with pytest.raises(StartError, match=r"hubName in host\.json needs the setting HUB"):
        host_json(tmp_path, text)


@pytest.mark.parametrize("hub", ["../../x", "a b", "", "ab", "x" * 65, "hüb"])
def test_hub_name_must_be_one(tmp_path: Path, hub: str) -> None:
    """A hub name that Azure's storage rejects is rejected, such as a path to another folder."""
    with pytest.raises(StartError, match=r"hubName in host\.json is '.*': it must be 3 to 64"):
        host_json(tmp_path, '{"extensions": {"durableTask": {"hubName": "%HUB%"}}}', HUB=hub)


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:00:01", 1), ("1.00:00:00", 86400), ("00:01:00.5", 60.5), ("2:03:04", 7384)]
)
def test_timespan(text: str, seconds: float) -> None:
    """Days and fractions are optional."""
    assert parse_timespan(text).total_seconds() == seconds
