"""A setting that is missing or wrong stops the start with one line that names it and the fix."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from functions.connections import Connection, SettingsError
from functions.settings import Settings, load_settings
from functions.workflow import Retry
from tests.fakes.application import SETTINGS


@pytest.fixture(autouse=True)
def complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the environment hold a complete set of settings, and nothing else of ours."""
    monkeypatch.chdir(tmp_path)
    ours = {str(field.validation_alias).lower() for field in Settings.model_fields.values()}
    for name in [name for name in os.environ if name.lower() in ours]:
        monkeypatch.delenv(name)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)


def _refusal() -> str:
    with pytest.raises(SettingsError) as refusal:
        load_settings()
    return str(refusal.value)


@pytest.mark.parametrize("schedule", ["*/5 * * * *", "0 */5 * * * *", "0 0 9-17 * Jan-Mar Mon"])
def test_schedule_has_five_or_six_fields(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NCRONTAB; two other settings are enough."""
    monkeypatch.setenv("SUPERVISOR_SCHEDULE", schedule)
    assert load_settings().supervisor_schedule == schedule


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("StateStore", "UseDevelopmentStorage=true for Azurite"),
        (
            "ServiceBusConnection",
            "ServiceBusConnection__fullyQualifiedNamespace to the namespace's host name",
        ),
    ],
)
@pytest.mark.parametrize("value", ["", None], ids=["empty", "missing"])
def test_missing_setting_is_named_with_its_fix(
    name: str,
    fix: str,
    value: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An empty one counts as missing."""
    monkeypatch.delenv(name)
    if value is not None:
        monkeypatch.setenv(name, value)
    text = _refusal()
    assert text.startswith(f"setting {name} is missing: set it to ")
    assert fix in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STATE_SHARDS", "0"),
        ("STATE_SHARDS", "257"),
        ("STATE_SHARDS", "many"),
        ("PICK_UP_SECONDS", "0"),
        ("RUN_SECONDS", "29"),
        ("RUN_SECONDS", "271"),
        ("DEFER_HOURS", "169"),
        ("PICK_UP_SECONDS", "soon"),
        ("PICK_UP_SECONDS", "nan"),
        ("STEP_SECONDS", "orders.payment"),
        ("RETRY", "attempts=3"),
        ("RETRY", "first=0"),
        ("RETRY", "first=5,longest=1"),
        ("RETRY", "first"),
        ("STEP_SECONDS", "orders.payment=long"),
        ("STEP_SECONDS", "orders.payment=0"),
        ("STEP_SECONDS", "orders.payment=nan"),
        ("BREAKER_FAILURES", "0"),
        ("BREAKER_OPEN_SECONDS", "-1"),
        ("BREAKER_OPEN_SECONDS", "1e9"),
        ("RETENTION_DAYS", "1000000"),
        ("RESERVATION_HOURS", "35"),
        ("ROLES", ","),
        ("SUPERVISOR_SCHEDULE", "every minute"),
        ("SAMPLE_SERVICES", "perhaps"),
        ("RATE_PER_MINUTE", "0"),
        ("REQUESTS_IN_FLIGHT", "0"),
        ("ALERT_WEBHOOK_URL", "http://hooks.example/canary"),
        ("ALERT_WEBHOOK_URL", "ftp://hooks.example/canary"),
        ("ALERT_WEBHOOK_URL", "canary"),
        ("ALERT_WEBHOOK_URL", "https://"),
        ("ALERT_WEBHOOK_URL", "http://[canary"),
    ],
)
def test_wrong_setting_is_named_with_its_fix(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what is wrong and what to set; the value itself, maybe a secret, is not shown."""
    monkeypatch.setenv(name, value)
    text = _refusal()
    assert text.startswith(f"setting {name} is wrong (")
    assert "): set it to " in text
    assert "\n" not in text
    assert "canary" not in text


def test_empty_optional_setting_is_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates write settings without a value."""
    monkeypatch.setenv("STATE_SHARDS", "")
    monkeypatch.setenv("REPLY_QUEUES", "")
    settings = load_settings()
    assert (settings.state_shards, settings.reply_queues) == (16, frozenset())


def test_lists_are_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks and a comma at the end do no harm. Other parts of a retry keep their defaults."""
    monkeypatch.setenv("RETRY", "first=1, longest=5")
    monkeypatch.setenv("REPLY_QUEUES", "notices-demo, other ,")
    monkeypatch.setenv("STEP_SECONDS", "orders.payment=0.5, deliveries.drone=60")
    settings = load_settings()
    assert settings.reply_queues == {"notices-demo", "other"}
    assert settings.step_seconds == {"orders.payment": 0.5, "deliveries.drone": 60}
    assert settings.retry == Retry(first=1, longest=5)


def test_services_can_be_reached_by_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Azure there are addresses instead of connection strings."""
    for name in ("StateStore", "ServiceBusConnection"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("StateStore__tableServiceUri", "https://account.table.core.windows.net")
    monkeypatch.setenv("StateStore__clientId", "client")
    monkeypatch.setenv("ServiceBusConnection__fullyQualifiedNamespace", "bus.servicebus.windows.net")
    settings = load_settings()
    assert settings.state_store_connection == Connection(
        None, "https://account.table.core.windows.net", "client"
    )
    assert settings.service_bus_connection == Connection(None, "bus.servicebus.windows.net", None)


def test_callers_are_known_by_keys_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The safe choice; a word that is none stops the start."""
    assert load_settings().auth_mode == "keys"
    monkeypatch.setenv("AUTH_MODE", "easyauth")
    assert load_settings().auth_mode == "easyauth"
    monkeypatch.setenv("AUTH_MODE", "none")
    assert "AUTH_MODE" in _refusal()
    assert "set it to keys, easyauth" in _refusal()


def test_every_role_is_granted_by_a_local_host_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH_MODE=local stops the start in Azure, where the environment is Production."""
    monkeypatch.setenv("AUTH_MODE", "local")
    monkeypatch.setenv("AZURE_FUNCTIONS_ENVIRONMENT", "Production")
    assert "AUTH_MODE" in _refusal()
    monkeypatch.delenv("AZURE_FUNCTIONS_ENVIRONMENT")
    assert "set it to keys" in _refusal()
    monkeypatch.setenv("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
    assert load_settings().auth_mode == "local"


def test_event_hub_is_there_only_where_a_setting_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By connection string or by identity."""
    assert load_settings().event_hubs_connection is None
    monkeypatch.setenv("EventHubConnection__fullyQualifiedNamespace", "hub.servicebus.windows.net")
    monkeypatch.setenv("EventHubConnection__clientId", "client")
    settings = load_settings()
    assert settings.event_hubs_connection == Connection(None, "hub.servicebus.windows.net", "client")
    assert (settings.event_hub_name, settings.event_hub_consumer_group) == ("order-events", "ingestion")
