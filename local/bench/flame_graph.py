"""Draws a flame graph of a process while it is measured."""

from __future__ import annotations

import asyncio
import re
import signal
import sysconfig
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from html import escape
from pathlib import Path

from local.platform import ROOT, PlatformError

_PY_SPY = Path(sysconfig.get_path("scripts")) / "py-spy"
_SAMPLES_A_SECOND = 100
_TITLE = re.compile(r'(<text id="title"[^>]*>)[^<]*')
#: What stands before a file's path in its project or package.
_BEFORE_PATH = re.compile(
    rf"\((?:{re.escape(str(ROOT))}/)?(?:/?[^()\s]*/(?:site-packages|src|python3\.\d+)/)?"
)


@asynccontextmanager
async def flame_graph(pid: int, file: Path, title: str) -> AsyncIterator[None]:
    """Sample a Python process for the length of the block, then write `file` (SVG).

    A sample counts where the thread that holds the interpreter is, so that threads which wait are left out.
    Raises `PlatformError` when the process can't be sampled.
    """
    process = await asyncio.create_subprocess_exec(
        *(str(_PY_SPY), "record", "--pid", str(pid), "--gil", "--format", "flamegraph", "--function"),
        *("--full-filenames", "--rate", str(_SAMPLES_A_SECOND), "--output", str(file)),
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,  # so that Ctrl-C is ours alone
    )
    try:
        assert process.stdout  # noqa: S101 - asked for above
        if not await process.stdout.readline():
            await _finish(process)
        yield
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        await _finish(process)
        text = await asyncio.to_thread(file.read_text, encoding="utf-8")
        await asyncio.to_thread(file.write_text, readable(text, title), encoding="utf-8")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def readable(graph: str, title: str) -> str:
    """Return a flame graph with another title, and with paths below the project or the package."""
    return _TITLE.sub(lambda found: found[1] + escape(title), _BEFORE_PATH.sub("(", graph), count=1)


async def _finish(process: Process) -> None:
    """Wait until it has written its file. Raises `PlatformError` with its reason when it has not."""
    _, errors = await process.communicate()
    if process.returncode:
        reason = errors.decode(errors="replace").strip().partition("\n")[0]
        raise PlatformError(f"py-spy did not sample the host: {reason}")
