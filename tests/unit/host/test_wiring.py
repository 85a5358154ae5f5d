"""What the composition root makes of its settings, and what its timers log."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential

from functions.connections import Connection, Connections, SettingsError
from functions.core.workflow_definition import WorkflowRegistry
from functions.settings import Settings, load_settings
from functions.supervisor.sweep_progress import SweepReport
from functions.table_clients import TableAccount
from functions.timers import report_sweep
from tests.fakes.application import SETTINGS


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
    for name, value in {**SETTINGS, **given}.items():
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


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"examined": 3}, logging.INFO),
        ({"failed": 1}, logging.WARNING),
        ({"left": {"due 000": None}}, logging.WARNING),
        ({"corrupt": {"t1|task": "no JSON"}}, logging.WARNING),
    ],
)
async def test_sweep_is_logged_in_one_line(
    fields: dict[str, object], level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Alert rules read its figures. A sweep that needs attention is a warning."""
    report = SweepReport(datetime(2026, 1, 1, tzinfo=UTC), **fields)  # type: ignore[arg-type]

    async def sweep() -> SweepReport:
        return report

    with caplog.at_level(logging.INFO, "functions"):
        await report_sweep("supervisor sweep", sweep)
    [record] = caplog.records
    assert record.levelno == level
    assert record.getMessage().startswith("supervisor sweep {")


async def _fail(*_: object) -> Any:
    raise ConnectionError("no answer")


async def test_sweep_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It raises nothing; the next sweep tries again."""
    await report_sweep("supervisor sweep", _fail)
    assert [record.getMessage() for record in caplog.records] == [
        "supervisor sweep failed",
    ]


@pytest.mark.parametrize("text", ["rubbish", "Endpoint=;AccountName=;"])
def test_connection_string_that_cannot_work_is_named(text: str) -> None:
    """The start stops with one line that names the setting; the string, a secret, is not shown."""
    account = TableAccount(Connection(text, None, None))
    for connect in (account.service, lambda: account.table("Tasks"), lambda: account.client("Tasks")):
        with pytest.raises(SettingsError, match=r"^setting StateStore is wrong \(.*set it to") as refusal:
            connect()
        assert text not in str(refusal.value)


def test_connection_string_without_the_key_is_named() -> None:
    """A shared access signature cannot sign every request."""
    text = "TableEndpoint=https://a.table.core.windows.net;SharedAccessSignature=sv=2019&sig=abc"
    with pytest.raises(SettingsError, match=r"^setting StateStore is wrong \(it has no AccountKey\)"):
        TableAccount(Connection(text, None, None)).table("Tasks")


async def test_tables_are_reached_by_identity() -> None:
    """Without a connection string, the address and the identity are used."""
    address = "https://account.table.core.windows.net"
    account = TableAccount(Connection(None, address, "client"))
    assert account.table("Tasks").session.address == address
    with account.service() as service:
        assert service.url == address
    async with account.client("Payments") as client:
        assert client.url == address
    assert not isinstance(account.table("Tasks").session._credential, AzureNamedKeyCredential)
