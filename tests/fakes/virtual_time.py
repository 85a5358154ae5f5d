"""An event loop whose time passes at once when nothing is left to do, and clocks that go by it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.clock import START


class _VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to the time of the next timer."""

    _ready: Any
    _scheduled: Any

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0.0

    def time(self) -> float:
        """Return the time that has passed, in seconds."""
        return self._passed

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self._passed = max(self._passed, self._scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


class VirtualClock:
    """The loop's time, which begins at `START`; `offset` seconds are how far this clock is wrong."""

    def __init__(self, offset: float = 0) -> None:
        self._offset = offset

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return START + timedelta(seconds=asyncio.get_running_loop().time() + self._offset)


def in_virtual_time[ResultT](work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run `work` to its end."""
    return asyncio.run(work, loop_factory=_VirtualLoop)
