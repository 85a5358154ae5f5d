"""Measures the Durable engine alone, on a host that runs nothing else."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from pathlib import Path

import aiohttp

from local.bench.host_figures import completed_orchestrations, until_completed
from local.bench.progress import Phase
from local.platform import Addresses, PartName, PlatformOptions
from local.platform.blueprint import Stages
from local.platform.parts import Part, Readiness

_APP = Path(__file__).parent / "engine_app"
_WARM_UP = 50


async def engine_rate(session: aiohttp.ClientSession, orchestrator: str, phase: Phase) -> float:
    """Start all orchestrations of the phase at once, and return how many were completed per second."""
    await _complete(session, orchestrator, _WARM_UP)
    start = time.perf_counter()
    await _complete(session, orchestrator, phase.total, phase)
    return phase.total / (time.perf_counter() - start)


async def _complete(
    session: aiohttp.ClientSession, orchestrator: str, count: int, phase: Phase | None = None
) -> None:
    before = await completed_orchestrations(session)
    await asyncio.gather(*(_start(session, orchestrator) for _ in range(count)))
    show = phase.show if phase else _ignore
    await until_completed(session, before + count, lambda completed: show(completed - before))


def _ignore(completed: int) -> None:
    """Show nothing of what only warms up."""


async def _start(session: aiohttp.ClientSession, orchestrator: str) -> None:
    path = f"/runtime/webhooks/durabletask/orchestrators/{orchestrator}/{uuid.uuid4().hex}"
    async with session.post(path, json={}, raise_for_status=True):
        pass


def host_alone(options: PlatformOptions, addresses: Addresses) -> Stages:
    """Return the host as the only part, with the app of the engine's measurement."""
    ports = ("--port", str(addresses.ports.host), "--data", str(options.data.resolve() / "host"))
    host = Part(
        name=PartName.HOST,
        command=(sys.executable, "-m", "functions_local", "--app", str(_APP), *ports),
        ready=Readiness(addresses.host_status),
    )
    return [[host]]
