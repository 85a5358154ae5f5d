"""The user's commands: they are a shell's, in the folder in which the kit was started."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from local.agent_check.verdicts import CommandFailedError
from local.platform.watchdog import Watchdog

_PRINTS_WITHIN = 30.0


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
        assert process.stdout  # noqa: S101 - asked for above
        if not await _has_line(process.stdout):
            raise CommandFailedError(f"--hold printed no line: {command}")
        yield
    finally:
        await _end(process)
        watchdog.release(process.pid)


async def _has_line(output: asyncio.StreamReader) -> bool:
    """Wait until a line has ended, however long it is; tell whether one has."""
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
