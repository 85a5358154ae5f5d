"""The application's own Agent keeps every rule, in an application of the Agents' role alone."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from azure.data.tables import TableServiceClient

from functions.roles import AGENT_TABLES
from local.platform import ROOT
from tests.integration.azurite import running_azurite
from tests.local.agent_check.payment_service import PaymentService
from tests.local.agent_check.samples import check

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]


async def test_our_own_agent_keeps_every_rule(tmp_path: Path) -> None:
    """Service Bus dead-letters a message that it can't read: a Python trigger can't.

    It gives up waiting for a service at complete-by.
    """
    async with running_azurite(tmp_path / "azurite") as storage, PaymentService.running() as service:
        sample = json.loads((ROOT / "local.settings.sample.json").read_text(encoding="utf-8"))["Values"]
        settings = sample | {
            "ROLES": "agents",
            "AzureWebJobsStorage": storage,
            "AgentStore": storage,
            "PAYMENT_URL": f"{service}/payments",
        }
        del settings["ServiceBusConnection"], settings["StateStore"]
        with TableServiceClient.from_connection_string(storage) as tables:
            for name in AGENT_TABLES:
                tables.create_table(name)
        shell = " ".join(f"'{name}={value}'" for name, value in settings.items())
        host = f"{sys.executable} -m functions_local --app {ROOT} --port 0 --data {tmp_path}/$$"
        options = (
            *("--effects", f"curl -sf {service}/effects", "--hold", f"exec curl -sN {service}/hold"),
            *("--processes", "1", "--abandons-unreadable"),
        )
        report = await asyncio.to_thread(check, tmp_path, f"exec env {shell} {host}", *options)
    assert report.checks("FAILED") == set(), report.text
    assert report.checks("not seen") == {"sent once work that ends late"}, report.text
    assert report.code == 0
