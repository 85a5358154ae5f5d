"""Stops the parts when the platform itself is killed.

A small process reads the running process groups from a pipe that only the platform writes. When the pipe
ends, the platform is gone, and the process stops the groups that still run: gently first, as Azurite saves
its data only every few seconds, then with SIGKILL. The kernel's parent-death signal would do the first half,
on Linux only.

This file is also the program of that process, so it imports only the standard library.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

#: Seconds between asking the parts to stop and killing those that have not.
_STOP_WITHIN = 4.0
_POLL = 0.02


class Watchdog:
    """The platform's end of the pipe."""

    def __init__(self, pipe: asyncio.StreamWriter) -> None:
        self._pipe = pipe

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Watchdog]:
        """Run a watchdog until the block ends."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", __file__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # out of reach of the terminal's Ctrl-C
        )
        assert process.stdin  # noqa: S101 - stdout is a pipe
        try:
            yield cls(process.stdin)
        finally:
            process.stdin.close()
            await process.wait()

    def guard(self, group: int) -> None:
        """Stop process group `group` if the platform dies, with SIGTERM first."""
        self._pipe.write(f"{group} {signal.SIGTERM:d}\n".encode())

    def is_stopping(self, group: int) -> None:
        """Send `group` no second stop signal: Azurite would end at once, without saving."""
        self._pipe.write(f"{group} 0\n".encode())

    def release(self, group: int) -> None:
        """Forget `group`, which is gone."""
        self._pipe.write(f"{group} -1\n".encode())


def watch(lines: Iterable[str]) -> None:
    """Read `group signal` lines until the platform is gone, then stop the groups that still run."""
    groups: dict[int, int] = {}
    for line in lines:
        group, stop_signal = map(int, line.split())
        if stop_signal < 0:
            groups.pop(group, None)
        else:
            groups[group] = stop_signal
    for group, stop_signal in groups.items():
        _send(group, signal.SIGCONT)  # a paused part does not receive the next signal
        _send(group, stop_signal)
    deadline = time.monotonic() + _STOP_WITHIN
    while any(_send(group, 0) for group in groups) and time.monotonic() < deadline:
        time.sleep(_POLL)
    for group in groups:
        _send(group, signal.SIGKILL)


def _send(group: int, number: int) -> bool:
    """Send a signal (0: only check) to a process group; false when the group is gone."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)
        return True
    return False


if __name__ == "__main__":
    watch(sys.stdin)
