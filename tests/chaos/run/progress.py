"""Shows the progress of a run: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import MofNCompleteColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from tests.chaos.callers import Callers
from tests.chaos.evidence.judge import Judge
from tests.chaos.plan import InjectedFault

_SHOW_EVERY = 0.5
_SAY_EVERY = 10.0


class RunProgress:
    """Shows accepted and finished orders, and the effects of faults."""

    def __init__(self, orders: int, console: Console) -> None:
        self._orders = orders
        self._console = console
        columns = (*Bars.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Bars(*columns, console=console, disable=not console.is_terminal)
        self._accepted = self._bars.add_task("accepted", total=orders)
        self._finished = self._bars.add_task("finished", total=orders)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        """Print a line, above the bars if there are any."""
        self._console.print(text, highlight=False)

    async def follow(self, callers: Callers, judge: Judge, faults: Counter[InjectedFault]) -> None:
        """Show the progress until cancelled."""
        terminal = self._console.is_terminal
        while True:
            accepted, finished = len(callers.accepted), judge.finished
            self._bars.update(self._accepted, completed=accepted)
            self._bars.update(self._finished, completed=finished)
            if not terminal:
                counts = f"{accepted} accepted, {finished} finished of {self._orders}"
                self.say(f"{counts}; {faults.total()} effects of faults")
            await asyncio.sleep(_SHOW_EVERY if terminal else _SAY_EVERY)
