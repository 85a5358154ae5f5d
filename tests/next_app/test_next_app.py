"""The new composition root on the local host: a task is processed, and recovered after `kill -9`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import aiohttp
import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from local.platform import ANY_PORTS, ROOT, PartName, Platform, PlatformOptions
from tests.e2e.caller import until_all_are

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

_SETTINGS = {"SUPERVISOR_SCHEDULE": "* * * * * *", "SKEW_SECONDS": "0.5", "STATE_SHARDS": "2"}


@asynccontextmanager
async def _running(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[Platform]:
    options = PlatformOptions(
        ports=ANY_PORTS,
        data=folder / "data",
        app=Path(__file__).parent,
        queues=ROOT / "infra" / "queues.json",
        in_memory_storage=True,
        settings={**_SETTINGS, "NOTES_FILE": str(folder / "notes"), **settings},
    )
    async with Platform(options) as platform:
        yield platform


async def _submit(platform: Platform, task: str) -> None:
    body = {"task": task, "workflow": "notes", "payload": {"text": "a"}}
    connection = platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender("submissions") as sender,
    ):
        await sender.send_messages(ServiceBusMessage(json.dumps(body), message_id=task))


async def _until_purged(host: str, instance: str) -> None:
    """Wait until the purge, which is run again and again, has deleted an instance that exists."""
    async with aiohttp.ClientSession(host) as session:
        status = await _status(session, instance)
        assert status in {HTTPStatus.OK, HTTPStatus.ACCEPTED}
        async with asyncio.timeout(90):
            while await _status(session, instance) != HTTPStatus.NOT_FOUND:
                async with session.post("/admin/functions/purge", json={"input": ""}) as answer:
                    assert answer.status == HTTPStatus.ACCEPTED
                await asyncio.sleep(0.2)


async def _status(session: aiohttp.ClientSession, instance: str) -> int:
    async with session.get(f"/runtime/webhooks/durabletask/instances/{instance}") as answer:
        return answer.status


async def test_task_is_processed(tmp_path: Path) -> None:
    """Each step is called once. The Durable instance of the run is purged by its age and status."""
    async with _running(tmp_path, {"RETENTION_DAYS": "0.00001"}) as platform:
        await _submit(platform, "n1")
        await until_all_are("Processed", platform, {"n1"})
        await _until_purged(platform.addresses.host, "n1.1.1")
    lines = (tmp_path / "notes").read_text().splitlines()
    assert [line.partition("/")[2] for line in lines] == ["first/do", "second/do"]


async def test_task_is_recovered_after_kill(tmp_path: Path) -> None:
    """The host dies in mid-call; the step is called again with the same key."""
    (tmp_path / "hold").touch()
    async with _running(tmp_path, {}) as platform:
        await _submit(platform, "n2")
        async with asyncio.timeout(90):
            while not (tmp_path / "notes").exists():
                await asyncio.sleep(0.05)
        await platform.kill(PartName.HOST)
        (tmp_path / "hold").unlink()
        await platform.start(PartName.HOST)
        await until_all_are("Processed", platform, {"n2"})
    lines = (tmp_path / "notes").read_text().splitlines()
    assert [line.partition("/")[2] for line in lines] == ["first/do", "first/do", "second/do"]
    assert len(set(lines)) == 2
