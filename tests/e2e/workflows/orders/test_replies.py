"""Replies on the queue pair of `orders`: which count, and which do not. The test acts as the Agent."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from functions.pattern.agent_messages import AgentReply, AgentRequest, done, refused
from tests.e2e.agents.stand_in import ELSEWHERE, StandIn
from tests.e2e.caller import ORDER
from tests.e2e.fleet.bench import running
from tests.e2e.recovery.bench import PATIENCE, events
from tests.e2e.recovery.supervisor import sweep
from tests.e2e.recovery.workflows import STEPS

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

#: The Supervisor sweeps on New Year's Day only: a reply can be late while its epoch is still the current one.
_SETTINGS = {
    **ELSEWHERE,
    "STEP_SECONDS": "orders.payment=20",
    "AGENTS_PICK_UP_SECONDS": "1",
    "SUPERVISOR_SCHEDULE": "0 0 0 1 1 *",
}

#: What the test's own Supervisor requires, and never calls.
_NO_SERVICES = {f"{step.upper()}_URL": "http://127.0.0.1:9" for step in STEPS}

_FORGED = "it carries another token than the request"
_OLD = "it is of epoch 1, and the task is in epoch 2"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StandIn]:
    """Run the application without its payment Agent, and stand in for it."""
    async with running(tmp_path_factory.mktemp("replies"), _SETTINGS) as bench, StandIn.at(bench) as agent:
        yield agent


async def test_forged_reply_counts_for_nothing(agent: StandIn, capfd: pytest.CaptureFixture[str]) -> None:
    """Without the request's token nothing is paid or refused, nor with it for a future epoch."""
    request = await _requested(agent, "forged")
    before = await _state_of(agent, "forged")
    forged = request.model_copy(update={"token": "0" * len(request.token)})
    early = request.model_copy(update={"epoch": 2})
    await agent.reply(_paid(forged), _refused(forged), _paid(early))
    assert await _state_of(agent, "forged") == before
    assert await _ignored("forged", 3, capfd) == [_FORGED, _FORGED, "its epoch has not begun"]
    await agent.reply(_paid(request))
    assert events(await agent.bench.until_state("forged", "Processed")) == ["submitted"]


async def test_duplicate_reply_counts_once(agent: StandIn) -> None:
    """An outcome is neither recorded again nor revoked."""
    request = await _requested(agent, "doubled")
    await agent.reply(_paid(request), _paid(request))
    await agent.bench.until_state("doubled", "Processed")
    before = await _state_of(agent, "doubled")
    await agent.reply(_paid(request), _refused(request))
    assert await _state_of(agent, "doubled") == before


async def test_reply_that_is_late_or_of_an_old_epoch_does_not_count(
    agent: StandIn, capfd: pytest.CaptureFixture[str]
) -> None:
    """Past complete-by it is refused; in the next epoch, too, where its token is not valid."""
    old = await _requested(agent, "late")
    before = await _state_of(agent, "late")
    await asyncio.sleep((old.complete_by - datetime.now(UTC)).total_seconds())
    await agent.reply(_paid(old), _refused(old))
    assert await _state_of(agent, "late") == before
    why = await _ignored("late", 2, capfd)
    assert [each for each in why if not re.fullmatch(r"it is late by \d+\.\d s", each)] == []
    assert (await sweep({**_NO_SERVICES, **agent.bench.settings}, "--clock-ahead", "60")).recovered == 1
    new = await agent.next_request()
    assert (new.task_id, new.epoch, new.effect_key) == ("late", 2, old.effect_key)
    before = await _state_of(agent, "late")
    await agent.reply(_paid(old), _refused(old), _paid(new.model_copy(update={"token": old.token})))
    assert await _state_of(agent, "late") == before
    assert await _ignored("late", 3, capfd) == [_FORGED, _OLD, _OLD]
    await agent.reply(_paid(new))
    task = await agent.bench.until_state("late", "Processed")
    assert events(task) == ["submitted", "recovered"]


async def _requested(agent: StandIn, task: str) -> AgentRequest:
    """Submit an order, and receive the request for its payment."""
    await agent.bench.submit(task, "orders", ORDER)
    request = await agent.next_request()
    assert (request.task_id, request.epoch) == (task, 1)
    return request


async def _state_of(agent: StandIn, task: str) -> Mapping[str, Any]:
    """Return a task without the times at which it is due and was updated."""
    found = await agent.bench.look_at(task)
    assert found is not None
    return {name: value for name, value in found.items() if name not in {"due_at", "updated_at"}}


async def _ignored(task: str, times: int, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Wait until the log has given so many reasons, since the last look, why a reply counts for nothing."""
    begin, read = f"task {task} step payment: a reply counts for nothing: ", ""
    async with asyncio.timeout(PATIENCE):
        while len(why := [line.partition(begin)[2] for line in read.splitlines() if begin in line]) < times:
            await asyncio.sleep(0.1)
            read += "".join(capfd.readouterr())
    return sorted(why)


def _paid(request: AgentRequest) -> AgentReply:
    return done(request, {"receipt": request.task_id})


def _refused(request: AgentRequest) -> AgentReply:
    return refused(request, "no such customer")
