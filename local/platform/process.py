"""The process of one part: started under the watchdog, its output in the log; stopped, killed or paused."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, ClassVar, Self

from local.platform.parts import Part, PartFailedError, PartName
from local.platform.watchdog import Watchdog

_CHUNK = 65_536
_COLOURS = {
    PartName.AZURITE: "\033[36m",
    PartName.BROKER: "\033[35m",
    PartName.HOST: "\033[33m",
    PartName.SCHEDULER: "\033[32m",
    PartName.AGENTS: "\033[34m",
    PartName.SUPERVISOR: "\033[95m",
    PartName.AGENT: "\033[34m",
}
_PLAIN = "\033[0m"
_WIDTH = max(map(len, PartName))
#: The repository's root, where the parts are started.
ROOT = Path(__file__).resolve().parents[2]
_GATE = Path(__file__).with_name("gate.py")
_LAST_LINES = 15
#: Seconds that the children of an ended part have to be gone; only one that left its group takes longer.
_GONE_WITHIN = 1.0


def log_line(part: PartName, line: str) -> None:
    """Write one line of `part` after its name. A reader that has gone (`2>&1 | head`) stops no part."""
    prefix = f"{part:<{_WIDTH}} |"
    # Only a terminal gets a colour, unless its user has set NO_COLOR (https://no-color.org).
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        prefix = f"{_COLOURS[part]}{prefix}{_PLAIN}"
    # `sys.stderr` is looked up each time: a live display replaces it, to keep lines above itself.
    with suppress(BrokenPipeError):
        print(prefix, line, file=sys.stderr, flush=True)


class OutputPipe:
    """A pipe for the output of one process: use it as a context manager while that process is created.

    Not asyncio's own pipe: its process counts as ended only at the end of the pipe, which a child that
    outlives the part keeps open. The process gets the read end too, without using it: the pipe then still
    works when the platform is killed, and printing while stopping is no error. Azurite would otherwise end
    at its first line, before it has saved.
    """

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self._reader: BinaryIO = os.fdopen(self.read_end, "rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        os.close(self.write_end)
        if kind:
            self._reader.close()

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines, without their ends, until no process holds the write end any more."""
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), self._reader
        )
        try:
            rest = b""
            while chunk := await stream.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _text(line)
            if rest:
                yield _text(rest)
        finally:
            transport.close()


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


class PartProcess:
    """A part that was started; create one with `PartProcess.start`."""

    #: The processes of this program's parts that have not ended.
    running: ClassVar[set[PartProcess]] = set()

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
        self.running.add(self)
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
        assert process.stdin  # noqa: S101 - stdout is a pipe
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
        self.running.discard(self)
        return code

    async def _pass_on_lines(self) -> None:
        async for line in self._output.lines():
            self.last_lines.append(line)
            log_line(self.part.name, line)

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
