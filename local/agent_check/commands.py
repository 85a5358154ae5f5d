"""The user's commands, run by a shell in the working folder: the Agent, its effects, the hold."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from local.platform.parts import Part, PartName, Readiness
from local.platform.process import PartProcess
from local.platform.watchdog import Watchdog

#: The setting in which an Agent finds its connection to Service Bus.
CONNECTION = "ServiceBusConnection"
#: Seconds until an Agent that ended is started again, as a service manager does.
_AGAIN_AFTER = 1.0
#: A shell's exit codes for a command that is not executable, or missing.
_NOT_RUN = (126, 127)
#: After this many ends without a reply, the Agent can't start, and is not started again.
_MOST_STARTS = 6
#: The line that names the error, above its stack.
_ERROR = re.compile(r"Error\b.*: ")
_PRINTS_WITHIN = 30.0


class CommandFailedError(Exception):
    """A command of the user failed; the text names it and the failure."""


class AgentProcesses:
    """As many processes of the Agent as are asked for; `has_replied` returns whether it ever replied."""

    def __init__(
        self,
        run: str,
        count: int,
        connection: str,
        watchdog: Watchdog,
        lock: int,
        *,
        has_replied: Callable[[], bool],
    ) -> None:
        self._part = Part(
            name=PartName.AGENT,
            command=("/bin/sh", "-c", 'cd "$0" && eval "$1"', str(Path.cwd()), run),
            ready=Readiness(""),
            environment={CONNECTION: connection},
        )
        self._count = count
        self._watchdog = watchdog
        self._lock = lock
        self._has_replied = has_replied
        self._keepers: list[asyncio.Task[None]] = []
        #: The exit codes and last lines of processes that ended without a kill.
        self.ended: list[str] = []
        #: The shell's error for a command that it can't run.
        self.not_run: str | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether its processes end without a reply, counted: a busy machine is slow to start them."""
        return len(self.ended) >= _MOST_STARTS and not self._has_replied()

    def start(self) -> None:
        """Start all processes."""
        self._keepers = [asyncio.create_task(self._keep()) for _ in range(self._count)]

    async def kill(self) -> None:
        """End all processes with SIGKILL, like a crash."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        self._keepers = []

    def see_that_it_runs(self) -> None:
        """Check that the command could be run. Raises `CommandFailedError`."""
        if self.not_run is not None:
            raise CommandFailedError(f"--run can't be run, {self.not_run}")

    async def _keep(self) -> None:
        while True:
            if not self.is_given_up:
                await self._run_once()
            await asyncio.sleep(_AGAIN_AFTER)

    async def _run_once(self) -> None:
        process = await PartProcess.start(self._part, self._watchdog, self._lock)
        try:
            code = await process.wait()
        finally:
            await process.kill()
        lines = list(process.last_lines)
        named = [line for line in lines if _ERROR.search(line)]  # it names the error; else the last line
        end = f"exit code {code}: {[*(named or lines or ['it printed nothing'])][-1]}"
        if code in _NOT_RUN:
            self.not_run = end
        self.ended.append(end)


async def count_effects(command: str) -> Counter[str]:
    """Run the command that prints lines of effect key and count, in any order; counts of a key add up.

    Raises `CommandFailedError`.
    """
    process = await asyncio.create_subprocess_shell(command, stdout=PIPE, start_new_session=True)
    try:
        async with asyncio.timeout(_PRINTS_WITHIN):
            output, _ = await process.communicate()
    except TimeoutError:
        raise CommandFailedError(f"--effects did not end within {_PRINTS_WITHIN:g} s: {command}") from None
    finally:
        _signal(process, signal.SIGKILL)
    if process.returncode:
        raise CommandFailedError(f"--effects ended with exit code {process.returncode}: {command}")
    counts: Counter[str] = Counter()
    try:
        for key, count in (_effect(line) for line in output.decode().splitlines() if line.strip()):
            counts[key] += count
    except ValueError:
        raise CommandFailedError("--effects must print lines of an effect key and a count") from None
    return counts


def _effect(line: str) -> tuple[str, int]:
    first, second = line.split()
    key, count = (first, second) if "/" in first else (second, first)
    if not re.fullmatch("[0-9]+", count):
        raise ValueError(f"no count: {count}")
    return key, int(count)


@asynccontextmanager
async def holding(command: str, watchdog: Watchdog) -> AsyncIterator[None]:
    """Hold the Agent's service up for the block. Raises `CommandFailedError` when it prints no line."""
    process = await asyncio.create_subprocess_shell(command, stdout=PIPE, start_new_session=True)
    watchdog.guard(process.pid)
    try:
        assert process.stdout  # noqa: S101 - stdout is a pipe
        if not await _has_line(process.stdout):
            raise CommandFailedError(f"--hold printed no line: {command}")
        yield
    finally:
        await _end(process)
        watchdog.release(process.pid)


async def _has_line(output: asyncio.StreamReader) -> bool:
    """Return whether a line ends within the timeout; it may be long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_PRINTS_WITHIN):
            while some := await output.read(4096):
                if b"\n" in some:
                    return True
    return False


async def _end(process: Process) -> None:
    _signal(process, signal.SIGTERM)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                await process.wait()
    finally:
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
