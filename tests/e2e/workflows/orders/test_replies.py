"""Replies on the queue pair of `orders`: which count, and which do not. The test acts as the Agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from functions.pattern.agent_messages import AgentReply, AgentRequest, done, refused
from functions.pattern.messages import AGENT_REPLIES_QUEUE, requests_queue
from tests.e2e.caller import ORDER
from tests.e2e.fleet.bench import running
from tests.e2e.recovery.bench import PATIENCE, Bench, events
from tests.e2e.recovery.supervisor import sweep
from tests.e2e.recovery.workflows import STEPS

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

#: No Agent of the application serves the queue, and its Supervisor sweeps on New Year's Day only: a reply
#: can be late while its epoch is still the current one.
_SETTINGS = {
    "AGENTS_ELSEWHERE": "payment",
    "STEP_SECONDS": "orders.payment=20",
    "SUPERVISOR_SCHEDULE": "0 0 0 1 1 *",
}

#: What the test's own Supervisor requires, and never calls.
_NO_SERVICES = {f"{step.upper()}_URL": "http://127.0.0.1:9" for step in STEPS}


@dataclass(frozen=True, slots=True)
class PaymentAgent:
    """The Agent behind the queue pair, which replies as the test says."""

    bench: Bench
    requests: ServiceBusReceiver
    replies: ServiceBusSender

    async def next_request(self) -> AgentRequest:
        """Wait for a request, and complete it."""
        (message,) = await self.requests.receive_messages(max_message_count=1, max_wait_time=PATIENCE)
        await self.requests.complete_message(message)
        return AgentRequest.model_validate_json(b"".join(message.body))

    async def reply(self, *replies: AgentReply) -> None:
        """Send replies, and wait until the queue has none left, waiting or locked."""
        await self.replies.send_messages([ServiceBusMessage(each.model_dump_json()) for each in replies])
        await self.bench.until_empty(AGENT_REPLIES_QUEUE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PaymentAgent]:
    """Run the application without its payment Agent, and stand in for it."""
    async with running(tmp_path_factory.mktemp("replies"), _SETTINGS) as bench:
        connection = bench.platform.addresses.service_bus_connection
        async with (
            ServiceBusClient.from_connection_string(connection) as client,
            client.get_queue_receiver(requests_queue("payment")) as requests,
            client.get_queue_sender(AGENT_REPLIES_QUEUE) as replies,
        ):
            yield PaymentAgent(bench, requests, replies)


async def test_forged_reply_counts_for_nothing(agent: PaymentAgent) -> None:
    """Without the request's token nothing is paid or refused, nor with it for a future epoch."""
    request = await _requested(agent, "forged")
    before = await _state_of(agent, "forged")
    forged = request.model_copy(update={"token": "0" * len(request.token)})
    early = request.model_copy(update={"epoch": 2})
    await agent.reply(_paid(forged), _refused(forged), _paid(early))
    assert await _state_of(agent, "forged") == before
    await agent.reply(_paid(request))
    assert events(await agent.bench.until_state("forged", "Processed")) == ["submitted"]


async def test_duplicate_reply_counts_once(agent: PaymentAgent) -> None:
    """An outcome is neither recorded again nor revoked."""
    request = await _requested(agent, "doubled")
    await agent.reply(_paid(request), _paid(request))
    await agent.bench.until_state("doubled", "Processed")
    before = await _state_of(agent, "doubled")
    await agent.reply(_paid(request), _refused(request))
    assert await _state_of(agent, "doubled") == before


async def test_reply_that_is_late_or_of_an_old_epoch_does_not_count(agent: PaymentAgent) -> None:
    """Past complete-by it is refused; in the next epoch, too, where its token is not valid."""
    old = await _requested(agent, "late")
    before = await _state_of(agent, "late")
    await asyncio.sleep((old.complete_by - datetime.now(UTC)).total_seconds())
    await agent.reply(_paid(old), _refused(old))
    assert await _state_of(agent, "late") == before
    assert (await sweep({**_NO_SERVICES, **agent.bench.settings}, "--clock-ahead", "60")).recovered == 1
    new = await agent.next_request()
    assert (new.task_id, new.epoch, new.effect_key) == ("late", 2, old.effect_key)
    before = await _state_of(agent, "late")
    await agent.reply(_paid(old), _refused(old), _paid(new.model_copy(update={"token": old.token})))
    assert await _state_of(agent, "late") == before
    await agent.reply(_paid(new))
    task = await agent.bench.until_state("late", "Processed")
    assert events(task) == ["submitted", "recovered"]


async def _requested(agent: PaymentAgent, task: str) -> AgentRequest:
    """Submit an order, and receive the request for its payment."""
    await agent.bench.submit(task, "orders", ORDER)
    request = await agent.next_request()
    assert (request.task_id, request.epoch) == (task, 1)
    return request


async def _state_of(agent: PaymentAgent, task: str) -> Mapping[str, Any]:
    """Return a task without the times at which it is due and was updated."""
    found = await agent.bench.look_at(task)
    assert found is not None
    return {name: value for name, value in found.items() if name not in {"due_at", "updated_at"}}


def _paid(request: AgentRequest) -> AgentReply:
    return done(request, {"receipt": request.task_id})


def _refused(request: AgentRequest) -> AgentReply:
    return refused(request, "no such customer")
