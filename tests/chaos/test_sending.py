"""Calls tell when they are sent, and hosts what they ask for, whatever becomes of either on the way."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from functions.agents.breaker import Breaker
from functions.agents.remote import RemoteService
from functions.bus.messages import QueuedMessages
from functions.bus.sender import QueueSender
from functions.machine import SystemClock
from functions.pattern.agent_messages import AgentRequest
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.states import Direction
from tests.chaos.app.journal import journal_requests, read_journals
from tests.chaos.app.sending import SENT, WatchedAgent, read_sending, stamp_requests, tell_now
from tests.chaos.evidence.dispatches import asked
from tests.chaos.sample_evidence import after
from tests.fakes.agent_requests import KEY, agent_call
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.chance import Least
from tests.fakes.ports import fake_ports
from tests.fakes.remote_service import Answer, RemoteServiceFake

_WITHIN = 20.0


@pytest.fixture
def _as_in_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo at the end what is done to classes of the library and of the product."""
    for owner, name in ((aiohttp.ClientRequest, "send"), (QueuedMessages, "ask")):
        monkeypatch.setattr(owner, name, getattr(owner, name))


@pytest.fixture
async def service() -> AsyncIterator[RemoteServiceFake]:
    """Serve a remote service."""
    async with RemoteServiceFake().running() as service:
        yield service


@pytest.mark.usefixtures("_as_in_the_host")
async def test_each_attempt_tells_when_it_was_sent(service: RemoteServiceFake) -> None:
    """The limit stays that of the call; undo has the same."""
    stamp_requests()
    service.answers = [Answer(503), Answer()]
    begun = datetime.now(UTC)
    call = agent_call(begun + timedelta(seconds=_WITHIN))
    async with aiohttp.ClientSession() as session:
        agent = WatchedAgent(_remote(service, session))
        await agent.do(call)
        await agent.undo(call)
    first, again, undo = (read_sending(each.headers[SENT]) for each in service.received)
    assert begun <= first.at < again.at < undo.at <= datetime.now(UTC)
    for each in (first, again, undo):
        assert each.complete_by == call.complete_by
        assert abs(each.ends_at - call.complete_by) < timedelta(seconds=1)
        assert each.turn <= each.at


async def test_process_that_was_frozen_could_not_know_the_time(service: RemoteServiceFake) -> None:
    """It is judged by when its event loop last came round."""
    async with aiohttp.ClientSession() as session:
        await WatchedAgent(_remote(service, session)).do(agent_call(datetime.now(UTC) + timedelta(seconds=9)))
    frozen = datetime.now(UTC)
    time.sleep(0.3)  # noqa: ASYNC251 - that nothing else goes on is what is tested
    told = read_sending(tell_now(time.monotonic(), frozen))
    assert told.turn <= frozen < told.at - timedelta(seconds=0.2)


@pytest.mark.usefixtures("_as_in_the_host")
async def test_request_stands_in_the_journal_also_if_it_is_not_sent(tmp_path: Path) -> None:
    """A dispatch is on record before it is sent: the host may be killed just then."""
    file, begun = tmp_path / "asked", datetime.now(UTC)
    journal_requests(file)
    request = AgentRequest(
        schema_version=1,
        task_id=TaskId("task-1"),
        step=StepName("payment"),
        epoch=Epoch(1),
        token="0" * 16,
        direction=Direction.DO,
        effect_key=KEY,
        complete_by=after(10),
        idempotent=True,
        request={},
        result=None,
    )
    with pytest.raises(ConnectionError):
        await QueuedMessages(_no_sender, SystemClock()).ask("payment", request)
    [found] = asked(read_journals([file, tmp_path / "of another host"]))["task-1"]
    told = found.dispatch
    assert (found.epoch, told.step, told.direction, told.complete_by) == (1, "payment", "do", after(10))
    assert told.started_at is not None
    assert begun <= told.started_at <= datetime.now(UTC)


def _no_sender(queue: str) -> QueueSender:
    raise ConnectionError(queue)


def _remote(service: RemoteServiceFake, session: aiohttp.ClientSession) -> RemoteService:
    ports = fake_ports(clock=SystemClock(), breakers=MemoryBreakerRows())
    policy = BreakerPolicy(failures=100, open_for=timedelta(seconds=60))
    return RemoteService(
        "payment",
        service.address,
        ports,
        session=lambda: session,
        once_session=lambda: session,
        breaker=Breaker("payment", ports, policy),
        random=Least(),
    )
