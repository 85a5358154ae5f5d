"""Draw a flame graph of a process with py-spy."""

from __future__ import annotations

import asyncio
import signal
import sysconfig
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from local.platform import PlatformError


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
        assert process.stdout  # noqa: S101 - asked for above
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
