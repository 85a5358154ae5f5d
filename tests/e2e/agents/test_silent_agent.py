"""Nobody serves an Agent's queue: operators hear of it once, and once that it is over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from azure.data.tables.aio import TableServiceClient

from functions.pattern.agent_messages import done
from functions.pattern.silent_agents import NOTED_EVERY
from functions.store.tables import TASKS_TABLE
from tests.e2e.agents.stand_in import ELSEWHERE, StandIn
from tests.e2e.caller import ORDER
from tests.e2e.console.story import Story
from tests.e2e.recovery.bench import PATIENCE, Bench, running
from tests.e2e.recovery.supervisor import sweep
from tests.fakes.orders import ORDERS

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

_WAITING = 200
_AT_ONCE = 8
_SHARDS = 2
#: Only the test's own Supervisors sweep, with clocks that are so far ahead, in seconds.
_SETTINGS = {
    **ELSEWHERE,
    "STEP_SECONDS": "orders.payment=60",
    "SUPERVISOR_SCHEDULE": "0 0 0 1 1 *",
    "SUPERVISOR_THRESHOLD": "3",
}
_AHEAD = ("85", "155")
_LOOK_EVERY = 0.2


async def test_one_alert_for_two_hundred_waiting_tasks_ends_with_the_first_reply(tmp_path: Path) -> None:
    """However many sweeps there are meanwhile; the console shows the Agent for as long."""
    async with running(tmp_path, _SETTINGS) as bench, StandIn.at(bench) as agent:
        await bench.submit("answered", "orders", ORDER)
        await agent.reply(done(await agent.next_request(), {}))
        await bench.until_state("answered", "Processed")
        await _let_tasks_wait(bench)
        assert (await sweep(bench.settings, "--clock-ahead", _AHEAD[0])).late == _WAITING
        [shown] = await _shown(bench)
        [begun] = _alerts(bench, "agent silent")
        assert (shown["agent"], shown["tasks"]) == (begun["agent"], begun["tasks"]) == ("payment", _WAITING)
        assert datetime.fromisoformat(shown["since"]) == datetime.fromisoformat(begun["since"])
        request = await agent.next_request()
        assert (await sweep(bench.settings, "--clock-ahead", _AHEAD[1])).late > 0
        [again] = await _shown(bench)
        assert again == shown | {"found_at": again["found_at"]}, "found once more, since the same time"
        assert _alerts(bench, "agent silent") == [begun]
        await _until_a_reply_is_kept_again(datetime.fromisoformat(begun["since"]))
        await agent.reply(done(request, {}))
        for _ in range(2):
            await sweep(bench.settings)
        [ended] = _alerts(bench, "agent replies again")
        assert (ended["agent"], ended["since"]) == (begun["agent"], begun["since"])
        assert _alerts(bench, "agent silent") == [begun]
        async with asyncio.timeout(PATIENCE):
            while await _shown(bench):  # the overview may be two seconds old
                await asyncio.sleep(_LOOK_EVERY)


async def _let_tasks_wait(bench: Bench) -> None:
    """Write tasks whose payment is asked for when any reply after the first would have been kept."""
    gate = asyncio.Semaphore(_AT_ONCE)
    async with TableServiceClient.from_connection_string(bench.settings["StateStore"]) as service:
        table = service.get_table_client(TASKS_TABLE)

        async def wait(number: int) -> None:
            story = Story.begin(ORDERS, f"waiting-{number}", datetime.now(UTC) + NOTED_EVERY)
            await story.claimed(0.1)
            await story.begun("payment", 0.2, within=ORDERS.steps[0].complete_within)
            async with gate:
                await story.write(table, _SHARDS)

        await asyncio.gather(*map(wait, range(_WAITING)))


async def _until_a_reply_is_kept_again(kept_at: datetime) -> None:
    """Only the Supervisors' clocks are ahead: by the host's, the last reply may have come just now."""
    await asyncio.sleep((kept_at + NOTED_EVERY - datetime.now(UTC)).total_seconds())


async def _shown(bench: Bench) -> list[dict[str, Any]]:
    async with bench.session.get("/api/ops/overview") as answer:
        shown: list[dict[str, Any]] = (await answer.json())["silent_agents"]
        return shown


def _alerts(bench: Bench, event: str) -> list[dict[str, Any]]:
    return [alert for alert in bench.remote.alerts if alert["event"] == event]
