"""The platform with the application of these tests, its callers, and the Agent that the test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from functions.messaging.agent_messages import AgentReply, AgentRequest, ReplyOutcome
from functions.messaging.queue_names import AGENT_REPLIES_QUEUE, requests_queue
from functions.supervisor.sweep_progress import SUPERVISOR
from local.platform import ANY_PORTS, ROOT, Platform, PlatformOptions
from tests.e2e.caller import rows

REQUESTS_QUEUE = requests_queue("payment")
#: Seconds that a test waits at most: more than any machine needs.
PATIENCE = 120.0
_SETTINGS = {
    "AGENTS_ELSEWHERE": "payment",
    "RETENTION_DAYS": "365",
    "SKEW_SECONDS": "0.5",
    "STATE_SHARDS": "4",
    "SUPERVISOR_SCHEDULE": "* * * * * *",
}
_ECHOED = AgentRequest.model_fields.keys() & AgentReply.model_fields.keys() - {"result"}


@dataclass(frozen=True, slots=True)
class Bench:
    """The platform, and connections to its host and its broker."""

    platform: Platform
    session: aiohttp.ClientSession
    bus: ServiceBusClient
    clock: Path

    async def submit(self, task: str) -> None:
        """Submit a letter."""
        async with self.session.put(f"/api/letters/{task}", json={"text": "question"}) as answer:
            assert answer.status == HTTPStatus.ACCEPTED, await answer.text()

    async def until_output(self, task: str) -> dict[str, Any]:
        """Wait until a letter is processed, and return its output."""
        while True:
            async with self.session.get(f"/api/letters/{task}") as answer:
                letter = await answer.json()
            if letter["state"] == "Processed":
                output: dict[str, Any] = letter["output"]
                return output
            await asyncio.sleep(0.1)

    async def row(self, task: str) -> dict[str, Any]:
        """Return the row of a task."""
        (row,) = await asyncio.to_thread(rows, self.platform, "Tasks", f"RowKey eq '{task}|task'")
        return row

    async def until_sent(self, task: str) -> None:
        """Wait until it is on record that the request was sent. Then the task is due at its deadline only."""
        tomorrow = datetime.now(UTC) + timedelta(days=float(self.clock.read_text()) + 1)
        query = f"RowKey eq '{task}|task' and DueAt gt datetime'{tomorrow:%Y-%m-%dT%H:%M:%SZ}'"
        while not await asyncio.to_thread(rows, self.platform, "Tasks", query):
            await asyncio.sleep(0.1)

    async def figures(
        self, queue: str, wanted: Callable[[Mapping[str, int]], bool] = lambda _: True
    ) -> Mapping[str, int]:
        """Wait until the broker's figures of a queue are as `wanted`, and return them."""
        while True:
            async with self.session.get(f"{self.platform.addresses.admin}/queues") as answer:
                queues = {each["name"]: each for each in await answer.json()}
            if wanted(queues[queue]):
                figures: Mapping[str, int] = queues[queue]
                return figures
            await asyncio.sleep(0.1)

    async def advance(self, days: float) -> None:
        """Set the application's clock to `days` after the machine's, and wait for a sweep at that time."""
        _set(self.clock, days)
        since = datetime.now(UTC) + timedelta(days=days)
        query = f"PartitionKey eq '{SUPERVISOR}' and RowKey eq 'sweep'"
        began_at = datetime.min.replace(tzinfo=UTC)
        while began_at < since:
            await asyncio.sleep(0.2)
            for row in await asyncio.to_thread(rows, self.platform, "Tasks", query):
                began_at = datetime.fromisoformat(json.loads(row["Heartbeat"])["began_at"])

    async def next_request(self) -> tuple[AgentRequest, timedelta]:
        """Wait for a request, and complete it; return it with the time to live of its message."""
        async with self.bus.get_queue_receiver(REQUESTS_QUEUE) as receiver:
            (message,) = await receiver.receive_messages(1, max_wait_time=PATIENCE)
            await receiver.complete_message(message)
        assert message.time_to_live is not None
        return AgentRequest.model_validate_json(b"".join(message.body)), message.time_to_live

    async def reply(self, request: AgentRequest, text: str) -> None:
        """Send the reply to a request, and wait until the application has handled it."""
        echoed = request.model_dump(include={*_ECHOED})
        reply = AgentReply(**echoed, outcome=ReplyOutcome.DONE, result={"text": text})
        async with self.bus.get_queue_sender(AGENT_REPLIES_QUEUE) as sender:
            await sender.send_messages(ServiceBusMessage(reply.model_dump_json()))
        await self.figures(AGENT_REPLIES_QUEUE, lambda each: not each["active"])


@asynccontextmanager
async def running(
    folder: Path, settings: Mapping[str, str], *, expire_on_receive: bool
) -> AsyncIterator[Bench]:
    """Run the platform for the block."""
    clock = folder / "clock"
    _set(clock, 0)
    options = PlatformOptions(
        ports=ANY_PORTS,
        data=folder / "data",
        app=Path(__file__).parent / "app",
        queues=_queues(folder),
        in_memory_storage=True,
        expire_on_receive=expire_on_receive,
        settings={**_SETTINGS, "CLOCK_FILE": str(clock), **settings},
    )
    async with (
        Platform(options) as platform,
        aiohttp.ClientSession(platform.addresses.host) as session,
        ServiceBusClient.from_connection_string(platform.addresses.service_bus_connection) as bus,
    ):
        yield Bench(platform, session, bus, clock)


def _set(clock: Path, days: float) -> None:
    new = clock.with_suffix(".new")
    new.write_text(str(days))
    new.replace(clock)


def _queues(folder: Path) -> Path:
    """Write the project's queues, with a longer time to live of the requests."""
    document = json.loads((ROOT / "infra" / "queues.json").read_text())
    for queue in document["queues"]:
        if queue["name"] == REQUESTS_QUEUE:
            queue["properties"]["defaultMessageTimeToLive"] = "P60D"
    file = folder / "queues.json"
    file.write_text(json.dumps(document))
    return file
