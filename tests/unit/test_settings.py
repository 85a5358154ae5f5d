"""A setting that is missing or wrong stops the start with one line that names it and the fix."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from azure.core.credentials import AzureNamedKeyCredential

from functions.connections import Connection, Connections, SettingsError, connect_bus
from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.host_functions import utc_now
from functions.settings import Settings, load_settings
from functions.table_accounts import TableAccount
from functions.workflow import Retry
from tests.fakes.application import SETTINGS


@pytest.fixture(autouse=True)
def complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set a complete set of settings in the environment, without any other setting."""
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


WRONG = {
    "STATE_SHARDS": ("0", "257", "many"),
    "PICK_UP_SECONDS": ("0", "soon", "nan"),
    "RUN_SECONDS": ("29", "271"),
    "DEFER_HOURS": ("169",),
    "STEP_SECONDS": ("orders.payment", "orders.payment=long", "orders.payment=0", "orders.payment=nan"),
    "RETRY": ("attempts=3", "first=0", "first=5,longest=1", "first"),
    "BREAKER_FAILURES": ("0",),
    "BREAKER_OPEN_SECONDS": ("-1", "1e9"),
    "RETENTION_DAYS": ("1000000",),
    "RESERVATION_HOURS": ("35",),
    "ROLES": (",",),
    "SUPERVISOR_SCHEDULE": ("every minute",),
    "SAMPLE_SERVICES": ("perhaps",),
    "RATE_PER_MINUTE": ("0",),
    "APPLICATIONINSIGHTS_AUTHENTICATION_STRING": ("AAD",),
    "REQUESTS_IN_FLIGHT": ("0",),
    "ALERT_WEBHOOK_URL": (
        *("http://hooks.example/canary", "ftp://hooks.example/canary", "canary"),
        *("https://", "http://[canary"),
    ),
}


@pytest.mark.parametrize(("name", "value"), [(name, each) for name in WRONG for each in WRONG[name]])
def test_wrong_setting_is_named_with_its_fix(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what is wrong and what to set; the value itself, maybe a secret, is not shown."""
    monkeypatch.setenv(name, value)
    text = _refusal()
    assert text.startswith(f"setting {name} is wrong (")
    assert "): set it to " in text
    assert "\n" not in text
    assert "canary" not in text


def test_lists_are_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks and a comma at the end do no harm. Other parts of a retry, and empty settings, have defaults."""
    for name in ("STATE_SHARDS", "REPLY_QUEUES"):
        monkeypatch.setenv(name, "")
    assert (load_settings().state_shards, load_settings().reply_queues) == (16, frozenset())
    monkeypatch.setenv("RETRY", "first=1, longest=5")
    monkeypatch.setenv("REPLY_QUEUES", "notices-demo, other ,")
    monkeypatch.setenv("STEP_SECONDS", "orders.payment=0.5, deliveries.drone=60")
    settings = load_settings()
    assert settings.reply_queues == {"notices-demo", "other"}
    assert settings.step_seconds == {"orders.payment": 0.5, "deliveries.drone": 60}
    assert settings.retry == Retry(first=1, longest=5)


def test_services_can_be_reached_by_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Azure there are addresses instead of connection strings. An event hub needs a setting."""
    assert load_settings().event_hubs_connection is None
    for name in SETTINGS:
        monkeypatch.delenv(name)
    table, bus, hub = "https://account.table.core.windows.net", "bus.windows.net", "hub.windows.net"
    monkeypatch.setenv("StateStore__tableServiceUri", table)
    monkeypatch.setenv("StateStore__clientId", "client")
    monkeypatch.setenv("ServiceBusConnection__fullyQualifiedNamespace", bus)
    monkeypatch.setenv("EventHubConnection__fullyQualifiedNamespace", hub)
    monkeypatch.setenv("EventHubConnection__clientId", "client")
    settings = load_settings()
    assert settings.state_store_connection == Connection(None, table, "client")
    assert settings.service_bus_connection == Connection(None, bus, None)
    assert settings.event_hubs_connection == Connection(None, hub, "client")
    assert (settings.event_hub_name, settings.event_hub_consumer_group) == ("order-events", "ingestion")


def test_callers_are_identified_by_keys_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH_MODE=local grants every role, so it stops the start in Azure (environment Production)."""
    assert load_settings().auth_mode == "keys"
    monkeypatch.delenv("AZURE_FUNCTIONS_ENVIRONMENT", raising=False)
    for mode, fix in (("none", "set it to keys, easyauth"), ("local", "set it to keys")):
        monkeypatch.setenv("AUTH_MODE", mode)
        assert "AUTH_MODE" in _refusal()
        assert fix in _refusal()
    monkeypatch.setenv("AZURE_FUNCTIONS_ENVIRONMENT", "Production")
    assert "AUTH_MODE" in _refusal()
    monkeypatch.setenv("AZURE_FUNCTIONS_ENVIRONMENT", "Development")
    assert load_settings().auth_mode == "local"
    monkeypatch.setenv("AUTH_MODE", "easyauth")
    assert load_settings().auth_mode == "easyauth"


def test_settings_become_the_settings_of_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """All times are seconds or hours; a circuit that opens for long is not closed earlier."""
    given = {
        "PICK_UP_SECONDS": "7",
        "SKEW_SECONDS": "1",
        "SUPERVISOR_THRESHOLD": "2",
        "EXTENDED_WAITS": "60,300",
        "BREAKER_FAILURES": "9",
        "BREAKER_OPEN_SECONDS": "45",
        "DEFER_HOURS": "1.5",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    rules = load_settings().rules(WorkflowRegistry([]))
    assert rules.start_within == timedelta(seconds=7)
    assert rules.skew == timedelta(seconds=1)
    assert rules.threshold == 2
    assert rules.extended_waits == (timedelta(seconds=60), timedelta(seconds=300))
    assert rules.open_after == 9
    assert rules.first_opening == rules.longest_opening == timedelta(seconds=45)
    assert rules.defer_for == timedelta(hours=1.5)


def test_application_has_at_most_forty_settings_of_its_own() -> None:
    """Connections are not counted."""
    assert len(Settings.model_fields.keys() - Connections.model_fields.keys()) <= 40


KEY = "SharedAccessKeyName=R;SharedAccessKey=S2V5"
BUS = f"Endpoint=sb://127.0.0.1:5672;{KEY}"
TABLES: list[Callable[[Connection], object]] = [
    lambda connection: TableAccount(connection, utc_now).service(),
    lambda connection: TableAccount(connection, utc_now).table("Tasks"),
]


@pytest.mark.parametrize(
    ("connect", "text", "fault"),
    [
        *(
            (connect, text, "StateStore is wrong")
            for connect in TABLES
            for text in ("rubbish", "Endpoint=;A=;")
        ),
        # A shared access signature cannot sign every request.
        (
            TABLES[1],
            "TableEndpoint=https://a.table.core.windows.net;SharedAccessSignature=sv=2019",
            r"StateStore is wrong \(it has no AccountKey",
        ),
        *(
            (connect_bus, text, "ServiceBusConnection is wrong")
            for text in (
                *("rubbish", KEY, "Endpoint=sb://127.0.0.1:5672"),
                *(f"{BUS};SharedAccessSignature=s", f"{BUS};EntityPath=q"),
            )
        ),
    ],
)
def test_connection_string_that_cannot_work_is_named(
    connect: Callable[[Connection], object], text: str, fault: str
) -> None:
    """The start stops with one line that names the setting; the string, a secret, is not shown."""
    with pytest.raises(SettingsError, match=rf"^setting {fault}.*set it to") as refusal:
        connect(Connection(text, None, None))
    assert text not in str(refusal.value)


@pytest.mark.parametrize(
    "connection", [Connection(BUS, None, None), Connection(None, "orders.servicebus.windows.net", None)]
)
async def test_client_is_made_at_its_first_use(connection: Connection) -> None:
    """Once, with a key or an identity."""
    connect = connect_bus(connection)
    assert connect() is connect()
    await connect().close()


def test_tables_are_reached_by_identity() -> None:
    """Without a connection string, the address and the identity are used."""
    address = "https://account.table.core.windows.net"
    account = TableAccount(Connection(None, address, "client"), utc_now)
    assert account.table("Tasks").session.address == address
    with account.service() as service:
        assert service.url == address
    assert not isinstance(account.table("Tasks").session._credential, AzureNamedKeyCredential)
