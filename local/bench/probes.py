"""CPU time, memory, pauses and flame graphs of the measured processes."""

from __future__ import annotations

import asyncio
import gc
import signal
import sysconfig
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp
import azure.functions as func
import psutil

from local.platform import PlatformError

_MEBIBYTE = 1024 * 1024
_ROUTE = "longest-pause"


@contextmanager
def cpu_of(processes: Mapping[str, int]) -> Iterator[dict[str, float]]:
    """Yield the CPU time in seconds of each process, given by its id; the block's end fills it in."""
    before, used = _cpu_seconds(processes), dict[str, float]()
    yield used
    used.update({name: seconds - before[name] for name, seconds in _cpu_seconds(processes).items()})


def resident_size(processes: Mapping[str, int]) -> dict[str, float]:
    """Return the memory of each process, given by its id, in MiB."""
    return {name: psutil.Process(pid).memory_info().rss / _MEBIBYTE for name, pid in processes.items()}


def _cpu_seconds(processes: Mapping[str, int]) -> dict[str, float]:
    times = {name: psutil.Process(pid).cpu_times() for name, pid in processes.items()}
    return {name: each.user + each.system for name, each in times.items()}


def serve_longest_pause(app: func.FunctionApp) -> None:
    """Measure each garbage collection of this process, and add a function that returns the longest.

    Its CPU time is measured, which a busy machine does not change.
    """
    started = longest = 0.0

    def measure(phase: str, _: dict[str, int]) -> None:
        nonlocal started, longest
        if phase == "start":
            started = time.thread_time()
        else:
            longest = max(longest, time.thread_time() - started)

    @app.route(_ROUTE, "_request", auth_level=func.AuthLevel.ANONYMOUS)
    def longest_pause(_request: func.HttpRequest) -> str:
        return str(longest)

    gc.callbacks.append(measure)


async def longest_pause(session: aiohttp.ClientSession) -> float:
    """Return the CPU time of the longest pause since the host's start, in seconds."""
    async with session.get(f"/api/{_ROUTE}", raise_for_status=True) as answer:
        return float(await answer.text())


@asynccontextmanager
async def flame_graph(pid: int, file: Path) -> AsyncIterator[None]:
    """Sample a Python process 100 times a second during the block, then write `file` (SVG).

    Only the thread that holds the interpreter is sampled. Raises `PlatformError` when sampling fails.
    """
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sysconfig.get_path("scripts")) / "py-spy"), "record", "--pid", str(pid)),
        *("--gil", "--function", "--full-filenames", "--rate", "100", "--output", str(file)),
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,  # so that Ctrl-C does not end it
    )
    try:
        assert process.stdout  # noqa: S101 - stdout is a pipe
        if not await process.stdout.readline():
            await _finish(process)
        yield
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        await _finish(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _finish(process: Process) -> None:
    _, errors = await process.communicate()
    if process.returncode:
        reason = errors.decode(errors="replace").strip().partition("\n")[0]
        raise PlatformError(f"py-spy did not sample the host: {reason}")
