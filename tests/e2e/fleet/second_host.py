"""A second instance of the application on the same storage and broker, as Azure runs several."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from local.platform import ANY_PORTS, Addresses, PartName, Platform, PlatformOptions
from local.platform.blueprint import Stages, whole_platform
from tests.e2e.fleet.bench import APP
from tests.e2e.recovery.bench import Bench


@asynccontextmanager
async def second_host(
    bench: Bench, data: Path, settings: Mapping[str, str]
) -> AsyncIterator[aiohttp.ClientSession]:
    """Run another host beside that of a bench, and yield a session for calls to it."""
    async with (
        another_host(data, {**bench.settings, **settings}) as platform,
        aiohttp.ClientSession(platform.addresses.host) as session,
    ):
        yield session


@asynccontextmanager
async def another_host(
    data: Path, settings: Mapping[str, str], *, app: Path = APP
) -> AsyncIterator[Platform]:
    """Run another host on what the settings name, and yield the platform that has it alone.

    It receives from the same queues and uses the same tables, but has its own Schedulers: the local
    Durable engine runs in one process, whereas Azure's instances share a task hub.
    """
    options = PlatformOptions(ports=ANY_PORTS, data=data, app=app, settings=settings)
    async with Platform(options, blueprint=_host_only) as platform:
        yield platform


def _host_only(options: PlatformOptions, addresses: Addresses) -> Stages:
    parts = (part for stage in whole_platform(options, addresses) for part in stage)
    return [[part for part in parts if part.name is PartName.HOST]]
