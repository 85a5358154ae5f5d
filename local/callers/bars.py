"""The progress of the demo, while it runs."""

from __future__ import annotations

import sys
from typing import Self

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn


class Bars:
    """Two progress bars; plain lines where there is no terminal."""

    def __init__(self, total: int, console: Console) -> None:
        self._total = total
        self._console = console
        self._last_line = ""
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(
            *columns, console=console, disable=not console.is_terminal, redirect_stderr=sys.stderr.isatty()
        )
        self._bars = {name: self._progress.add_task(name, total=total) for name in ("submitted", "finished")}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, name: str, completed: int) -> None:
        """Move a bar."""
        self._progress.update(self._bars[name], completed=completed)

    def say(self, name: str, completed: int) -> None:
        """Move a bar, and where there is no terminal print a line if it has changed."""
        self.show(name, completed)
        line = f"{name} {completed} of {self._total}"
        if line != self._last_line and not self._console.is_terminal:
            self._console.print(line, highlight=False)
            self._last_line = line
