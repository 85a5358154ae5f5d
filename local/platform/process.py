"""One part's process: started under the watchdog, its lines in the log, stopped, killed or paused."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from contextlib import suppress
from pathlib import Path

from local.platform import log
from local.platform.errors import PartFailedError
from local.platform.output import OutputPipe
from local.platform.parts import Part
from local.platform.watchdog import Watchdog

#: The repository's root: parts are started here, as `python -m local.…` must be found.
ROOT = Path(__file__).resolve().parents[2]
#: The part's program starts when a line arrives, which is when the watchdog knows of it. Should the
#: platform be killed before that, `read` fails and nothing starts.
_GATE = 'read -r go && exec "$@"'
_LAST_LINES = 15
#: Seconds that the last lines get to arrive when a process is gone.
_LAST_WORDS = 1.0


class PartProcess:
    """A part that was started. Make one with `PartProcess.start`."""

    def __init__(
        self, part: Part, process: asyncio.subprocess.Process, output: OutputPipe, watchdog: Watchdog
    ) -> None:
        self.part = part
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        #: Whether its end was asked for; an end that was not is a failure.
        self.told_to_end = False
        self._process = process
        self._output = output
        self._watchdog = watchdog
        self._ended = asyncio.create_task(self._until_ended(), name=f"{part.name} ends")

    @classmethod
    async def start(cls, part: Part, watchdog: Watchdog, lock: int) -> PartProcess:
        """Start `part` in a process group of its own, holding the data folder's `lock` while it lives."""
        with OutputPipe() as output:
            process = await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", _GATE, part.name, *part.command),
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
        """Its process id, which is also its process group's."""
        return self._process.pid

    async def wait(self) -> int:
        """Wait until it has ended, and return its exit code (negative: the signal that ended it)."""
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        """Ask it to stop, wait until it has, and kill it when that takes longer than its `stop_within`."""
        if self._ended.done():
            return
        self.told_to_end = True
        self._watchdog.is_stopping(self.pid)
        self._signal_group(signal.SIGCONT)
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(self.part.stop_within):
                await self.wait()
        except TimeoutError:
            log.write(self.part.name, f"did not stop within {self.part.stop_within:g} s; it is killed")
            await self.kill()

    async def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone."""
        self.kill_now()
        await self.wait()

    def kill_now(self) -> None:
        """End it with SIGKILL, without waiting."""
        self.told_to_end = True
        self._signal_group(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it, as a machine that hangs does."""
        self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._signal_group(signal.SIGCONT)

    def failure(self, what_happened: str) -> PartFailedError:
        """Return the error that tells `what_happened` together with the last lines."""
        return PartFailedError(self.part.name, what_happened, tuple(self.last_lines))

    async def _until_ended(self) -> int:
        lines = asyncio.create_task(self._pass_on_lines(), name=f"{self.part.name} lines")
        code = await self._process.wait()
        self._signal_group(signal.SIGKILL)  # what it may have started itself, and left
        with suppress(TimeoutError):
            await asyncio.wait_for(lines, _LAST_WORDS)
        self._watchdog.release(self.pid)
        return code

    async def _pass_on_lines(self) -> None:
        async for line in self._output.lines():
            self.last_lines.append(line)
            log.write(self.part.name, line)

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
