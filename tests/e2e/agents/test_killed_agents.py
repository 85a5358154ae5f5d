"""An Agent is killed when it has paid and not replied: its request comes again long before complete-by."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from local.platform import PartName
from tests.contract.remote_agent import AGENT, RemoteAgent
from tests.e2e.agents.stand_in import ELSEWHERE
from tests.e2e.caller import ORDER, rows
from tests.e2e.recovery.bench import Bench, events, running, step, until
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(240)]

#: As in the product, but for a longer time to pay, so that a busy machine is early, too.
_LIMITS = {
    "STEP_SECONDS": "orders.payment=240",
    "AGENTS_PICK_UP_SECONDS": "300",
    "SUPERVISOR_THRESHOLD": "3",
    "SKEW_SECONDS": "5",
}
#: Seconds until whoever keeps an Agent running starts it again.
_BACK_AFTER = 2
#: A request's lock, and what a busy machine needs to start a host; complete-by is far later.
_WITHIN = timedelta(seconds=100)

#: The Agent of the document, which has nobody to reply to: it says that it has paid, and waits for its end.
_MUTE = """
import runpy, sys, time
from azure.servicebus import ServiceBusSender
ServiceBusSender.send_messages = lambda *_: (print("paid", flush=True), time.sleep(600))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


async def test_agent_elsewhere_is_killed_between_effect_and_reply(tmp_path: Path) -> None:
    """It is another process, with a ledger of its own."""
    async with running(tmp_path / "data", ELSEWHERE | _LIMITS) as bench:
        connection = bench.platform.addresses.service_bus_connection
        async with _mute_agent(tmp_path, connection) as has_paid:
            await bench.submit("killed", "orders", ORDER)
            await has_paid
        killed = datetime.now(UTC)
        await asyncio.sleep(_BACK_AFTER)
        with RemoteAgent(tmp_path, connection) as agent:
            await _goes_on(bench, killed)
            [(key, times)] = agent.effects().items()
    assert (key.partition(".")[0], times) == ("killed", 1)


async def test_our_own_agent_is_killed_between_effect_and_reply(tmp_path: Path) -> None:
    """With the host that it runs in, and so with the Scheduler."""
    async with running(tmp_path, _LIMITS) as bench:
        bench.remote.script("killed/payment/do", Behaviour.FORGETS, Behaviour.ANSWERS)
        await bench.submit("killed", "orders", ORDER)
        await until(lambda: bool(rows(bench.platform, "Payments")))
        await bench.platform.kill(PartName.HOST)
        killed = datetime.now(UTC)
        await asyncio.sleep(_BACK_AFTER)
        await bench.platform.start(PartName.HOST)
        await _goes_on(bench, killed)
        [payment] = rows(bench.platform, "Payments")
        assert payment["RowKey"].partition(".")[0] == "killed"
        assert bench.remote.called("killed/payment/do") == 2


@asynccontextmanager
async def _mute_agent(folder: Path, connection: str) -> AsyncIterator[asyncio.Task[None]]:
    """Run the Agent until the block ends, and give what waits for its payment."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", _MUTE, str(AGENT)),
        cwd=folder,
        env={**os.environ, "ServiceBusConnection": connection},
        stdout=asyncio.subprocess.PIPE,
    )
    output = process.stdout
    assert output

    async def has_paid() -> None:
        assert await output.readline() == b"paid\n"

    try:
        yield asyncio.create_task(has_paid())
    finally:
        process.kill()
        await process.wait()


async def _goes_on(bench: Bench, killed: datetime) -> None:
    """Wait until the order is processed: without a recovery, and in time."""
    found = await bench.until_state("killed", "Processed")
    assert (found["epoch"], found["failure_count"], events(found)) == (1, 0, ["submitted"])
    assert datetime.fromisoformat(step(found, "payment")["finished_at"]) - killed < _WITHIN
