"""The kit's own broker, with the Agent's pair of queues and nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from functions.messaging.agent_messages import AGENT_REPLIES_QUEUE
from local.agent_check.verdicts import BrokerGoneError
from local.platform import ANY_PORTS, PartName, Platform, PlatformOptions, broker_alone


class OwnBroker:
    """A broker that may be killed, and does as it is told."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._admin = platform.addresses.admin

    @classmethod
    @asynccontextmanager
    async def running(cls, queue: str, lock: float, folder: Path) -> AsyncIterator[OwnBroker]:
        """Run a broker with the queues of one Agent for the block."""
        requests = {"lockDuration": f"PT{lock:g}S", "maxDeliveryCount": 10, "defaultMessageTimeToLive": "P1D"}
        queues = [{"name": queue, "properties": requests}, {"name": AGENT_REPLIES_QUEUE}]
        file = folder / "queues.json"
        file.write_text(json.dumps({"queues": queues}), encoding="utf-8")
        options = PlatformOptions(ports=ANY_PORTS, data=folder / "broker", queues=file)
        async with Platform(options, broker_alone) as platform:
            yield cls(platform)

    @property
    def connection(self) -> str:
        """The connection string for the Agent and the kit."""
        return self._platform.addresses.service_bus_connection

    async def kill(self) -> None:
        """End it, like a crash."""
        await self._platform.kill(PartName.BROKER)

    async def start(self) -> None:
        """Start it again, with what it had."""
        await self._platform.start(PartName.BROKER)

    async def expire_locks(self, queue: str) -> None:
        """Let the locks of a queue run out now."""
        await self._call("POST", "/faults", {"kind": "expire-locks", "queue": queue})

    @asynccontextmanager
    async def slow_to_thank(self, seconds: float) -> AsyncIterator[None]:
        """For the block, a reply is there long before the Agent hears so: it can't settle its request yet."""
        late = {"queue": AGENT_REPLIES_QUEUE, "milliseconds": round(seconds * 1_000)}
        await self._call("POST", "/faults", late | {"kind": "delay-acknowledgements"})
        try:
            yield
        finally:
            await self._call("DELETE", "/faults")

    async def figure(self, queue: str, name: str) -> int:
        """Return a figure of a queue, such as `active`, `locked`, `receivers` or `locks_expired`."""
        queues = await self._call("GET", "/queues")
        return next(int(each[name]) for each in queues if each["name"] == queue)

    async def _call(self, method: str, path: str, body: object = None) -> Any:
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.request(method, self._admin + path, json=body, raise_for_status=True) as answer,
            ):
                return await answer.json()
        except aiohttp.ClientError as fault:
            raise BrokerGoneError(f"The kit's own can't be asked: {fault}") from None
