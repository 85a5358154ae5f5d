"""Azurite without the other parts, keeping its data in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from local.platform import ANY_PORTS, Platform, PlatformOptions, azurite_alone


@asynccontextmanager
async def running_azurite(data: Path) -> AsyncIterator[str]:
    """Run Azurite on free ports until the block ends, and yield its connection string."""
    options = PlatformOptions(ports=ANY_PORTS, data=data, in_memory_storage=True)
    async with Platform(options, azurite_alone) as platform:
        yield platform.addresses.storage_connection
