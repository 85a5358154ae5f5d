"""The real platform's Azurite, without the other parts, keeping its data in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from local.platform import ANY_PORTS, Addresses, PartName, Platform, PlatformOptions
from local.platform.blueprint import Stages, whole_platform


@asynccontextmanager
async def running_azurite(data: Path) -> AsyncIterator[str]:
    """Run Azurite on free ports until the block ends, and yield its connection string."""
    options = PlatformOptions(ports=ANY_PORTS, data=data, in_memory_storage=True)
    async with Platform(options, _azurite_only) as platform:
        yield platform.addresses.storage_connection


def _azurite_only(options: PlatformOptions, addresses: Addresses) -> Stages:
    stages = whole_platform(options, addresses)
    return [[part for stage in stages for part in stage if part.name is PartName.AZURITE]]
