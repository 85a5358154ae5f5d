"""A deployment in which something is missing is named by the lines of its verification."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from local.callers.cases import Case, Submission
from local.callers.client import OrderClient, OrderState
from local.platform import ROOT, Platform, PlatformOptions, PlatformPorts
from local.verification.run import CheckMark
from tests.e2e.caller import NEEDS_ORDERS, PATIENCE
from tests.local.verification.running import DEPLOYED, failed, verified

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.timeout(300)]

#: Seconds after which what is switched off is believed to be.
_SHORT = 8.0
#: Four roles only at night: each case waits for several timeouts of the command.
_DEPLOYED = [
    pytest.param(ports, id=name, marks=[] if name == "one host" else pytest.mark.night)
    for name, ports in DEPLOYED.items()
]


async def _until_one_is_processing(url: str) -> None:
    """Have an order begun: the first one takes longer, as nothing is loaded and connected yet."""
    first = Submission.new("first", Case.ORDER)
    async with OrderClient.at(url) as orders, asyncio.timeout(PATIENCE):
        assert (await orders.put("orders", first.id, first.body())).is_good
        early = {OrderState.ACCEPTED, OrderState.PENDING}
        while (order := await orders.look_at(first.id)) is None or order.state in early:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("ports", _DEPLOYED)
async def test_missing_queue_and_silent_supervisor_are_named(ports: PlatformPorts, tmp_path: Path) -> None:
    """Each has its line; an order that stays under way is named, and how far it came."""
    declared = json.loads((ROOT / "infra" / "queues.json").read_text(encoding="utf-8"))
    declared["queues"] = [each for each in declared["queues"] if each["name"] != "agent-payment-requests"]
    queues = tmp_path / "queues.json"
    queues.write_text(json.dumps(declared))
    options = PlatformOptions(
        ports=ports,
        data=tmp_path / "data",
        settings={
            "STATE_SHARDS": "4",
            "SUPERVISOR_SCHEDULE": "* * * * * *",
            "AzureWebJobs.supervisor.Disabled": "true",
        },
        queues=queues,
        in_memory_storage=True,
    )
    async with Platform(options) as platform:
        await _until_one_is_processing(platform.addresses.host)
        lines = await verified(platform.addresses, _SHORT)
    seen = failed(lines)
    assert seen["queues"] == "can't be looked into: agent-payment-requests"
    assert "is the Supervisor on?" in seen["the Supervisor"]
    assert re.search(
        r"verify-\w+ still Processing, with payment [\w ]+, after 8 s", seen["an order processed"]
    )
    assert "the same again" not in seen
    assert lines["the same again"].verdict is CheckMark.NOT_RUN
