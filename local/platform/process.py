"""The process of one part: started under the watchdog, its output in the log; stopped, killed or paused."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path

from local.platform.errors import PartFailedError
from local.platform.output import OutputPipe, log_line
from local.platform.parts import Part
from local.platform.watchdog import Watchdog

#: The repository's root, where the parts are started.
ROOT = Path(__file__).resolve().parents[2]
_GATE = Path(__file__).with_name("gate.py")
_LAST_LINES = 15
#: Seconds that the children of an ended part have to be gone; only one that left its group takes longer.
_GONE_WITHIN = 1.0


class PartProcess:
    """A part that was started; create one with `PartProcess.start`."""

    def __init__(
        self, part: Part, process: asyncio.subprocess.Process, output: OutputPipe, watchdog: Watchdog
    ) -> None:
        self.part = part
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        #: Whether the platform ended it; any other end is a failure.
        self.stop_requested = False
        self._process = process
        self._output = output
        self._watchdog = watchdog
        self._ended = asyncio.create_task(self._until_ended(), name=f"{part.name} ends")

    @classmethod
    async def start(cls, part: Part, watchdog: Watchdog, lock: int) -> PartProcess:
        """Start `part` in its own process group, which holds the data folder's `lock` while it lives."""
        with OutputPipe() as output:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_GATE), *part.command),
                stdin=asyncio.subprocess.PIPE,
                stdout=output.write_end,
                stderr=output.write_end,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **part.environment},
                start_new_session=True,
                pass_fds=(lock, output.read_end),
            )
        assert process.stdin  # noqa: S101 - asked for above
        watchdog.guard(process.pid)
        process.stdin.write(b"go\n")
        process.stdin.close()
        return cls(part, process, output, watchdog)

    @property
    def pid(self) -> int:
        """Its process id, and the id of its process group."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait until its group is gone, and return its exit code (negative: the signal that ended it)."""
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        """Ask it to stop, and kill it when that takes longer than its `stop_within`."""
        if self._ended.done():
            return
        self.stop_requested = True
        self._watchdog.is_stopping(self.pid)
        self._signal_group(signal.SIGCONT)
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(self.part.stop_within):
                await self.wait()
        except TimeoutError:
            log_line(self.part.name, f"did not stop within {self.part.stop_within:g} s; killing it")
            await self.kill()

    async def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone."""
        self.kill_now()
        await self.wait()

    def kill_now(self) -> None:
        """End it with SIGKILL, without waiting."""
        self.stop_requested = True
        self._signal_group(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it, like a machine that hangs."""
        self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """End a `pause`."""
        self._signal_group(signal.SIGCONT)

    def failure(self, what_happened: str) -> PartFailedError:
        """Return the error for `what_happened`, with the last lines."""
        return PartFailedError(self.part.name, what_happened, tuple(self.last_lines))

    async def _until_ended(self) -> int:
        lines = asyncio.create_task(self._pass_on_lines(), name=f"{self.part.name} lines")
        code = await self._process.wait()
        self._signal_group(signal.SIGKILL)  # the children that it has left behind
        # The lines end when the last process of the group is gone.
        with suppress(TimeoutError):
            await asyncio.wait_for(lines, _GONE_WITHIN)
        self._watchdog.release(self.pid)
        return code

    async def _pass_on_lines(self) -> None:
        async for line in self._output.lines():
            self.last_lines.append(line)
            log_line(self.part.name, line)

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
