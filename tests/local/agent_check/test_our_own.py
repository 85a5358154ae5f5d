"""The application's own Agent keeps every rule: its host runs with every other function switched off."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from azure.data.tables.aio import TableClient

from functions.store.rejected import REJECTED_TABLE
from local.platform import ROOT
from tests.integration.azurite import running_azurite
from tests.local.agent_check.payment_service import PaymentService
from tests.local.agent_check.samples import check

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

#: Twelve sorts of rubbish, and another schema version.
_UNREADABLE = 13
_OTHERS = (
    *("health", "api", "docs", "openapi", "operations", "console_page", "console_files", "services"),
    *("submission", "supervisor", "full_sweep", "backlog"),
    *("housekeeping", "scheduler", "run_steps", "agent_replies", "scheduler_requests"),
    *("dead_letter_agent_payment_requests", "dead_letter_agent_replies", "dead_letter_scheduler_requests"),
    *("dead_letter_submissions", "dead_letter_operator_alerts", "dead_letter_notices_demo", "operator_alert"),
)


async def test_our_own_agent_keeps_every_rule(tmp_path: Path) -> None:
    """What it can't read it completes, and keeps in `Rejected`: a Python trigger can't dead-letter.

    It gives up waiting for a service at complete-by.
    """
    async with running_azurite(tmp_path / "azurite") as storage, PaymentService.running() as service:
        sample = json.loads((ROOT / "local.settings.sample.json").read_text(encoding="utf-8"))["Values"]
        settings = sample | {
            **{f"AzureWebJobs.{name}.Disabled": "true" for name in _OTHERS},
            "AzureWebJobsStorage": storage,
            "StateStore": storage,
            "PAYMENT_URL": f"{service}/payments",
        }
        del settings["ServiceBusConnection"]
        shell = " ".join(f"'{name}={value}'" for name, value in settings.items())
        host = f"{sys.executable} -m functions_local --app {ROOT} --port 0 --data {tmp_path}/$$"
        options = (
            *("--effects", f"curl -sf {service}/effects", "--hold", f"exec curl -sN {service}/hold"),
            *("--processes", "1", "--keeps-rejected"),
        )
        report = await asyncio.to_thread(check, tmp_path, f"exec env {shell} {host}", *options)
        async with TableClient.from_connection_string(storage, REJECTED_TABLE) as table:
            kept = [(row["Queue"], row["Agent"]) async for row in table.list_entities()]
    assert report.checks("FAILED") == set(), report.text
    assert report.checks("not seen") == {"sent once work that ends late"}, report.text
    assert report.code == 0
    assert kept == [("agent-payment-requests", "payment")] * _UNREADABLE
