"""A request whose Agent is killed arrives again; if it must not be repeated, the reply is `unknown`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from functions.messaging.agent_messages import AgentReply, AgentRequest
from functions.messaging.queue_names import AGENT_REPLIES_QUEUE
from local.platform import ANY_PORTS, ROOT, PartName, Platform, PlatformOptions
from tests.contract.schemas import examples
from tests.e2e.agents.payments import Payments

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

QUEUE = "agent-payment-requests"
_APP = Path(__file__).parent / "app"
_PATIENCE = 90
#: So long that the start of a host on a busy machine takes less than half of it.
_COMPLETE_WITHIN = timedelta(seconds=240)


@dataclass(frozen=True, slots=True)
class Bench:
    """The platform with the Agent, the service that it calls, and its queues."""

    platform: Platform
    payments: Payments
    bus: ServiceBusClient

    async def ask(self, task: str, *, idempotent: bool) -> AgentRequest:
        """Send a request."""
        changes: dict[str, object] = {
            "task_id": task,
            "effect_key": f"{task}/payment/do",
            "idempotent": idempotent,
        }
        complete_by = (datetime.now(UTC) + _COMPLETE_WITHIN).isoformat()
        changes |= {"complete_by": complete_by, "start_id": f"{task}-0123456789abcdef"}
        request = AgentRequest.model_validate_json(json.dumps(examples()[0][0] | changes))
        async with self.bus.get_queue_sender(QUEUE) as sender:
            await sender.send_messages(ServiceBusMessage(request.model_dump_json()))
        return request

    async def hear(self) -> AgentReply:
        """Receive the next reply."""
        async with self.bus.get_queue_receiver(AGENT_REPLIES_QUEUE) as receiver:
            [message] = await receiver.receive_messages(1, max_wait_time=_PATIENCE)
            await receiver.complete_message(message)
            return AgentReply.model_validate_json(str(message))

    async def until_called(self, *tasks: str) -> None:
        """Wait until the service was called for each task."""
        async with asyncio.timeout(_PATIENCE):
            while any(not self.payments.calls[task] for task in tasks):
                await asyncio.sleep(0.05)

    async def until_settled(self) -> None:
        """Wait until no request is left, on its way or waiting."""
        url = f"{self.platform.addresses.admin}/queues"
        async with asyncio.timeout(_PATIENCE), aiohttp.ClientSession() as session:
            while True:
                async with session.get(url) as answer:
                    queues = {each["name"]: each for each in json.loads(await answer.text())}
                if not queues[QUEUE]["active"]:
                    return
                await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run the Agent with the project's queues."""
    async with Payments().running() as payments:
        options = PlatformOptions(
            ports=ANY_PORTS,
            data=tmp_path_factory.mktemp("agents"),
            app=_APP,
            queues=ROOT / "infra" / "queues.json",
            settings={"PAYMENT_URL": payments.address, "PYTHONPATH": str(ROOT), "ROLES": "agents"},
            in_memory_storage=True,
        )
        async with (
            Platform(options) as platform,
            ServiceBusClient.from_connection_string(platform.addresses.service_bus_connection) as bus,
        ):
            yield Bench(platform, payments, bus)


async def test_request_of_a_killed_agent_is_redelivered(bench: Bench) -> None:
    """Long before its deadline. The service is not called again for a request that must not be repeated."""
    again = await bench.ask("hanging-again", idempotent=True)
    await bench.ask("hanging-once", idempotent=False)
    await bench.until_called("hanging-again", "hanging-once")
    await bench.platform.kill(PartName.HOST)
    await bench.platform.start(PartName.HOST)
    replies = {reply.task_id: reply for reply in [await bench.hear(), await bench.hear()]}
    reply = replies["hanging-again"]
    assert (reply.start_id, reply.outcome, reply.result) == (again.start_id, "done", {"task": again.task_id})
    assert replies["hanging-once"].outcome == "unknown"
    assert datetime.now(UTC) < again.complete_by - _COMPLETE_WITHIN / 2
    await bench.until_settled()
    assert (bench.payments.calls["hanging-again"], bench.payments.calls["hanging-once"]) == (2, 1)
