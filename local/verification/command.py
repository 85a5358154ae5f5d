"""The command: verifies a deployment, and prints a table of what was seen."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from local.platform import INTERRUPTED, until_stop_signal
from local.verification.credentials import Credentials
from local.verification.run import CheckLine, CheckMark, verify
from local.verification.scene import Scene

_DONE = 0
_FAILED = 1
#: Nothing failed, but not everything could be run: no proof.
NOT_ALL_RUN = 3

_MARKS = {
    CheckMark.PASSED: "[green]✓[/]",
    CheckMark.FAILED: "[red]✗ failed[/]",
    CheckMark.NOT_RUN: "[yellow]- not run[/]",
}


async def verify_at(url: str, operators: str, patience: float) -> int:
    """Verify the deployment at `url`, and where `operators` are; `patience` is in seconds.

    Returns the exit code.
    """
    credentials = Credentials.of(os.environ, url, operators)
    console = Console(width=None if sys.stdout.isatty() else 140)
    return await until_stop_signal(
        _verify(url, operators, credentials, patience, console), lambda: None, stopped=INTERRUPTED
    )


async def _verify(
    url: str, operators: str, credentials: Credentials, patience: float, console: Console
) -> int:
    async with Scene.at(url, operators, credentials, patience) as scene:
        try:
            lines = await verify(scene, lambda line: _say(console, line))
        except asyncio.CancelledError:
            left = ", ".join(f"{each.case.resource}/{each.id}" for each in scene.made)
            console.print(f"stopped; left there: {left or 'nothing'}", soft_wrap=True)
            raise
    console.print(_table(url, lines))
    return exit_code(lines)


def _say(console: Console, line: CheckLine) -> None:
    if console.is_terminal:
        console.print(f"{_MARKS[line.verdict]} {line.check}")


def exit_code(lines: Sequence[CheckLine]) -> int:
    """Return 0 only if everything was run and passed."""
    verdicts = {line.verdict for line in lines}
    if CheckMark.FAILED in verdicts:
        return _FAILED
    return NOT_ALL_RUN if CheckMark.NOT_RUN in verdicts else _DONE


def _table(url: str, lines: Sequence[CheckLine]) -> Table:
    table = Table("", "check", "seen", "seconds", title=f"Verified: {url}")
    for line in lines:
        table.add_row(_MARKS[line.verdict], line.check, escape(line.seen), f"{line.seconds:.1f}")
    return table
