"""The new composition root on the local host: tasks are processed, and recovered after `kill -9`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from functions.messaging.message_format import SubmissionMessage
from local.platform import ANY_PORTS, ROOT, PartName, Platform, PlatformOptions
from tests.e2e.caller import ORDER, Caller, rows, until_all_are
from tests.fakes.web_server import served

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]

_PATIENCE = 120
_SETTINGS = {
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "SKEW_SECONDS": "0.5",
    "STATE_SHARDS": "2",
    "RETENTION_DAYS": "1",
    "EXTENDED_WAITS": "1,1,1",
}


@dataclass
class Services:
    """The services of all steps. While `is_open` is not set, a call waits for the end of its connection."""

    url: str = ""
    keys: list[str] = field(default_factory=list)
    is_open: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def called(self) -> list[str]:
        """Return the steps and directions that were called, in their order."""
        return [key.partition("/")[2] for key in self.keys]

    async def answer(self, request: web.Request) -> web.Response:
        """Note the idempotency key, and return the request as the result."""
        self.keys.append(request.headers["Idempotency-Key"])
        await self.is_open.wait()
        return web.json_response(await request.json())

    async def until_called(self) -> None:
        """Wait for the first call."""
        async with asyncio.timeout(_PATIENCE):
            while not self.keys:
                await asyncio.sleep(0.05)


@asynccontextmanager
async def _serving() -> AsyncIterator[Services]:
    services, app = Services(), web.Application()
    app.router.add_route("PUT", "/{step}/{resource}", services.answer)
    async with served(app) as services.url:
        services.is_open.set()
        yield services


@asynccontextmanager
async def _running(folder: Path, services: Services, **settings: str) -> AsyncIterator[Platform]:
    urls = {f"{step.upper()}_URL": f"{services.url}/{step}" for step in ("first", "second")}
    options = PlatformOptions(
        ports=ANY_PORTS,
        data=folder,
        app=Path(__file__).parent,
        queues=ROOT / "infra" / "queues.json",
        in_memory_storage=True,
        settings={**_SETTINGS, **urls, **settings},
    )
    async with Platform(options) as platform:
        yield platform


async def _submit(platform: Platform, workflow: str, task: str, payload: dict[str, Any]) -> None:
    order = SubmissionMessage(
        task_id=task,
        workflow=workflow,
        payload=payload,
        submitter="test",
        submitted_at=datetime.now(UTC),
    )
    connection = platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender("submissions") as sender,
    ):
        await sender.send_messages(ServiceBusMessage(order.body, message_id=order.id))


async def _until_purged(host: str, instance: str) -> None:
    """Wait until the purge, which is run again and again, has deleted an instance that exists."""
    async with aiohttp.ClientSession(host) as session:
        status = await _status(session, instance)
        assert status in {HTTPStatus.OK, HTTPStatus.ACCEPTED}
        async with asyncio.timeout(_PATIENCE):
            while await _status(session, instance) != HTTPStatus.NOT_FOUND:
                async with session.post("/admin/functions/purge", json={"input": ""}) as answer:
                    assert answer.status == HTTPStatus.ACCEPTED
                await asyncio.sleep(0.2)


async def _status(session: aiohttp.ClientSession, instance: str) -> int:
    async with session.get(f"/runtime/webhooks/durabletask/instances/{instance}") as answer:
        return answer.status


async def test_task_is_processed(tmp_path: Path) -> None:
    """Each step is called once. The Durable instance of the run is purged by its age and status."""
    settings = {"RETENTION_DAYS": "0.00001", "ONLY_NOTES": "1"}  # orders may be cancelled for a day
    async with _serving() as services, _running(tmp_path, services, **settings) as platform:
        await _submit(platform, "notes", "n1", {"text": "a"})
        await until_all_are("Processed", platform, {"n1"})
        await _until_purged(platform.addresses.host, "n1.1.1")
    assert services.called == ["first/do", "second/do"]


async def test_task_is_recovered_after_kill(tmp_path: Path) -> None:
    """The host dies in mid-call; the step is called again with the same key."""
    settings = {"STEP_SECONDS": "notes.first=10"}
    async with _serving() as services, _running(tmp_path, services, **settings) as platform:
        services.is_open.clear()
        await _submit(platform, "notes", "n2", {"text": "a"})
        await services.until_called()
        await platform.kill(PartName.HOST)
        services.is_open.set()
        await platform.start(PartName.HOST)
        await until_all_are("Processed", platform, {"n2"})
    assert set(services.called) == {"first/do", "second/do"}
    assert services.called.count("first/do") > 1
    assert len(set(services.keys)) == 2


async def test_order_is_paid_by_its_agent_behind_a_queue(tmp_path: Path) -> None:
    """From the message on `submissions` to `Processed`, with the sample service."""
    async with _serving() as services, _running(tmp_path, services) as platform:
        await _submit(platform, "orders", "o1", ORDER)
        await until_all_are("Processed", platform, {"o1"})
        payments = await asyncio.to_thread(rows, platform, "Payments")
    assert [row["RowKey"].partition(".")[0] for row in payments] == ["o1"]


async def test_order_is_submitted_and_read_over_http(tmp_path: Path) -> None:
    """Callers see `Processed` and the output. Operators see the task, and find another by its text."""
    async with (
        _serving() as services,
        _running(tmp_path, services) as platform,
        Caller.of(platform) as caller,
    ):
        assert await caller.put("o2") == HTTPStatus.ACCEPTED
        assert await caller.put("o2") == HTTPStatus.ACCEPTED
        order = await caller.until_state("o2", "Processed")
        assert order["output"]["currency"] == ORDER["currency"]
        async with caller.session.get("/api/ops/tasks/o2") as answer:
            assert answer.status == HTTPStatus.OK
        await _submit(platform, "notes", "n3", {"text": "Ada"})
        await until_all_are("Processed", platform, {"n3", "o2"})
        async with caller.session.get("/api/ops/tasks", params={"find": " ada"}) as answer:
            assert [each["id"] for each in (await answer.json())["tasks"]] == ["n3"]
        async with caller.session.get("/api/health") as answer:
            assert answer.status == HTTPStatus.OK
        async with caller.session.get("/api/openapi.json") as answer:
            assert answer.status == HTTPStatus.OK
