"""What the parts' processes use while they are measured: CPU time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import psutil

#: Seconds between two readings of the memory.
_LOOK_EVERY = 0.2
_MEBIBYTE = 1024 * 1024


@dataclass(slots=True)
class Usage:
    """What each process used within a block, by its name: seconds of CPU time, MiB of peak memory."""

    cpu_seconds: dict[str, float] = field(default_factory=dict)
    peak_mebibytes: dict[str, float] = field(default_factory=dict)


@asynccontextmanager
async def usage_of(processes: Mapping[str, int]) -> AsyncIterator[Usage]:
    """Yield the usage of processes, by their ids, which is complete at the end of the block."""
    usage = Usage(peak_mebibytes=dict.fromkeys(processes, 0.0))
    watched = {name: psutil.Process(pid) for name, pid in processes.items()}
    before = {name: _cpu_seconds(process) for name, process in watched.items()}

    async def look() -> None:
        while True:
            for name, process in watched.items():
                now = process.memory_info().rss / _MEBIBYTE
                usage.peak_mebibytes[name] = max(usage.peak_mebibytes[name], now)
            await asyncio.sleep(_LOOK_EVERY)

    looking = asyncio.create_task(look())
    try:
        yield usage
        usage.cpu_seconds = {name: _cpu_seconds(process) - before[name] for name, process in watched.items()}
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError, psutil.Error):
            await looking


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
