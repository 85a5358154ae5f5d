"""Measures the Durable engine alone, on a host that runs nothing else."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from pathlib import Path

import aiohttp

from local.bench.host_figures import completed_orchestrations, until_completed
from local.platform import ANY_PORTS, Addresses, PartName, Platform, PlatformOptions
from local.platform.blueprint import Stages
from local.platform.parts import Part, Readiness

_APP = Path(__file__).parent / "engine_app"
_CONNECTIONS = 50


async def engine_rate(orchestrator: str, count: int, data: Path) -> float:
    """Start `count` orchestrations at once, and return how many were completed per second."""
    async with Platform(PlatformOptions(ports=ANY_PORTS, data=data), _host_alone) as platform:
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS)
        async with aiohttp.ClientSession(platform.addresses.host, connector=connector) as session:
            await _complete(session, orchestrator, count // 10)
            start = time.perf_counter()
            await _complete(session, orchestrator, count)
            return count / (time.perf_counter() - start)


async def _complete(session: aiohttp.ClientSession, orchestrator: str, count: int) -> None:
    before = await completed_orchestrations(session)
    await asyncio.gather(*(_start(session, orchestrator) for _ in range(count)))
    await until_completed(session, before + count)


async def _start(session: aiohttp.ClientSession, orchestrator: str) -> None:
    instance = uuid.uuid4().hex
    path = f"/runtime/webhooks/durabletask/orchestrators/{orchestrator}/{instance}"
    async with session.post(path, json={"task": instance, "epoch": 1}, raise_for_status=True):
        pass


def _host_alone(options: PlatformOptions, addresses: Addresses) -> Stages:
    ports = ("--port", str(addresses.ports.host), "--data", str(options.data.resolve() / "host"))
    host = Part(
        name=PartName.HOST,
        command=(sys.executable, "-m", "functions_local", "--app", str(_APP), *ports),
        ready=Readiness(addresses.host_status),
    )
    return [[host]]
