"""The progress of a measurement: a bar for each phase; plain lines where there is no terminal."""

from __future__ import annotations

import sys
from typing import Self

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn


class Phase:
    """One phase of `total` orders or orchestrations."""

    def __init__(self, total: int, progress: Progress, bar: TaskID) -> None:
        self.total = total
        self._progress = progress
        self._bar = bar

    def show(self, completed: int) -> None:
        """Move the bar."""
        self._progress.update(self._bar, completed=completed)


class Phases:
    """The phases that have begun."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(
            *columns, console=console, disable=not console.is_terminal, redirect_stderr=sys.stderr.isatty()
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, what: str, total: int) -> Phase:
        """Begin a phase."""
        if not self._console.is_terminal:
            self._console.print(f"{what}: {total} …", highlight=False)
        return Phase(total, self._progress, self._progress.add_task(what, total=total))

    def say(self, what: str) -> None:
        """Tell what happens on the way."""
        self._progress.console.print(what, highlight=False)
