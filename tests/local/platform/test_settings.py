"""Which of the sample, the developer's file, the environment and the running parts wins for a setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local.platform import Addresses, PlatformPorts, StartRefusedError
from local.platform.settings import application_settings

ADDRESSES = Addresses(PlatformPorts(host=7171, service_bus=5772, table=10102))


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Return an application folder with the sample settings."""
    _write(
        tmp_path / "local.settings.sample.json",
        STATE_SHARDS="16",
        PAYMENT_URL="http://127.0.0.1:7071/payments",
    )
    return tmp_path


def _write(file: Path, **values: str) -> None:
    file.write_text(json.dumps({"IsEncrypted": False, "Values": values}))


def _settings(app: Path, environment: dict[str, str] | None = None, **settings: str) -> dict[str, str]:
    return application_settings(app, environment or {}, ADDRESSES, settings)


def test_the_sample_is_enough(app: Path) -> None:
    """A newcomer need not write a file."""
    assert _settings(app)["STATE_SHARDS"] == "16"


def test_the_developers_file_wins_over_the_sample_and_the_environment_over_both(app: Path) -> None:
    """As with Core Tools."""
    _write(app / "local.settings.json", STATE_SHARDS="4")
    assert _settings(app)["STATE_SHARDS"] == "4"
    assert _settings(app, {"STATE_SHARDS": "2"})["STATE_SHARDS"] == "2"


def test_connections_are_always_those_of_the_running_parts(app: Path) -> None:
    """Nobody writes to their own storage account by accident."""
    _write(
        app / "local.settings.json",
        AzureWebJobsStorage="theirs",
        ServiceBusConnection="theirs",
        StateStore="theirs",
    )
    settings = _settings(app, {"StateStore": "theirs"})
    assert "TableEndpoint=http://127.0.0.1:10102/devstoreaccount1;" in settings["StateStore"]
    assert settings["AzureWebJobsStorage"] == settings["StateStore"]
    assert settings["ServiceBusConnection"].startswith("Endpoint=sb://127.0.0.1:5772;")


def test_event_hub_is_the_running_broker_s_where_it_is_asked_for(app: Path) -> None:
    """By the environment, a settings file or the options; an app reads its hub where the setting is there."""
    emulator = {"EventHubConnection": "UseDevelopmentEmulator=true"}
    assert "EventHubConnection" not in _settings(app, {})
    for settings in (_settings(app, emulator), application_settings(app, {}, ADDRESSES, emulator)):
        assert settings["EventHubConnection"] == settings["ServiceBusConnection"]


def test_a_connection_to_an_emulator_is_that_of_the_running_part(app: Path) -> None:
    """Whatever its name; another connection stays as it is."""
    _write(
        app / "local.settings.json",
        Orders="Endpoint=sb://localhost;SharedAccessKey=x;UseDevelopmentEmulator=true;",
        Files="UseDevelopmentStorage=true",
        Other="Endpoint=sb://theirs.servicebus.windows.net;SharedAccessKey=x",
    )
    settings = _settings(app)
    assert settings["Orders"] == settings["ServiceBusConnection"]
    assert settings["Files"] == settings["StateStore"]
    assert settings["Other"].startswith("Endpoint=sb://theirs")


def test_sample_services_follow_the_hosts_port(app: Path) -> None:
    """A file that was copied from the sample says nothing about the port in use."""
    _write(app / "local.settings.json", PAYMENT_URL="http://127.0.0.1:7071/payments")
    assert _settings(app)["PAYMENT_URL"] == "http://127.0.0.1:7171/payments"
    assert _settings(app)["SAMPLE_SERVICES"] == "1"


def test_a_payment_service_of_ones_own_is_used(app: Path) -> None:
    """A fork that brings its own remote service names it in its settings file or in the environment."""
    _write(app / "local.settings.json", PAYMENT_URL="http://127.0.0.1:9000/pay")
    assert _settings(app)["PAYMENT_URL"] == "http://127.0.0.1:9000/pay"
    assert _settings(app, {"PAYMENT_URL": "http://other"})["PAYMENT_URL"] == "http://other"


def test_every_role_is_granted_unless_another_mode_is_set(app: Path) -> None:
    """By the environment, the developer's file or the options."""
    assert _settings(app)["AUTH_MODE"] == "local"
    assert _settings(app, {"AUTH_MODE": "easyauth"})["AUTH_MODE"] == "easyauth"
    assert _settings(app, AUTH_MODE="easyauth")["AUTH_MODE"] == "easyauth"
    _write(app / "local.settings.json", AUTH_MODE="easyauth")
    assert _settings(app)["AUTH_MODE"] == "easyauth"


def test_settings_that_a_test_gives_win_over_everything(app: Path) -> None:
    """By them a test points the application to its own service."""
    assert (
        _settings(app, {"PAYMENT_URL": "http://other"}, PAYMENT_URL="http://mine")["PAYMENT_URL"]
        == "http://mine"
    )


def test_a_second_host_shares_the_broker_that_a_test_names(app: Path) -> None:
    """Each has a platform of its own, and its own addresses."""
    other = "Endpoint=sb://127.0.0.1:1;SharedAccessKey=x;UseDevelopmentEmulator=true"
    assert _settings(app, ServiceBusConnection=other)["ServiceBusConnection"] == other


def test_other_environment_variables_are_no_settings(app: Path) -> None:
    """The host inherits them anyway."""
    assert "HOME" not in _settings(app, {"HOME": "/home/someone"})


@pytest.mark.parametrize("text", ["{", '{"Values": {"A": ["list"]}}'])
def test_a_broken_settings_file_is_refused_by_its_name(app: Path, text: str) -> None:
    """The developer learns which file to fix."""
    (app / "local.settings.json").write_text(text)
    with pytest.raises(StartRefusedError, match=r"local\.settings\.json is not a settings file"):
        _settings(app)
