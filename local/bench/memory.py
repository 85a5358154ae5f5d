"""The most memory that each process has held, looked at every now and then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import psutil

_LOOK_EVERY = 0.2
_MEBIBYTE = 1024 * 1024


@asynccontextmanager
async def peak_memory(processes: Mapping[str, int]) -> AsyncIterator[dict[str, float]]:
    """Give a mapping that holds, when the block ends, each process's peak resident memory in MiB."""
    peaks = dict.fromkeys(processes, 0.0)
    watched = {name: psutil.Process(pid) for name, pid in processes.items()}

    async def look() -> None:
        while True:
            for name, process in watched.items():
                peaks[name] = max(peaks[name], process.memory_info().rss / _MEBIBYTE)
            await asyncio.sleep(_LOOK_EVERY)

    looking = asyncio.create_task(look())
    try:
        yield peaks
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError, psutil.Error):
            await looking
