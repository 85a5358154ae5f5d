"""The progress of a command: a bar for each phase, or lines without a terminal."""

from __future__ import annotations

import sys
import time
from typing import Self

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn


class Phase:
    """One phase of `total` orders, requests or other units."""

    def __init__(self, name: str, total: int, progress: Progress, bar: TaskID) -> None:
        self.total = total
        self._name = name
        self._progress = progress
        self._bar = bar
        self._printed_at = time.monotonic()
        self._is_complete = False

    def show(self, completed: int) -> None:
        """Move the bar; without a terminal, print a line every ten seconds and at the end."""
        self._progress.update(self._bar, completed=completed)
        ends = completed >= self.total and not self._is_complete
        if not self._progress.console.is_terminal and (ends or time.monotonic() >= self._printed_at + 10):
            self._printed_at, self._is_complete = time.monotonic(), ends
            self._progress.console.print(f"{self._name}: {completed} of {self.total}", highlight=False)


class Phases:
    """The phases that have begun."""

    def __init__(self, console: Console) -> None:
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(
            *columns, console=console, disable=not console.is_terminal, redirect_stderr=sys.stderr.isatty()
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, name: str, total: int) -> Phase:
        """Begin a phase."""
        if not self._progress.console.is_terminal:
            self._progress.console.print(f"{name}: {total} …", highlight=False)
        return Phase(name, total, self._progress, self._progress.add_task(name, total=total))
