"""An event loop whose time is virtual: when nothing is ready, it goes to the next timer at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

from tests.simulation.world.owner import owned_task


class StuckError(Exception):
    """Everybody waits, and no timer is set: nothing can ever happen again."""


class _Leap(selectors.SelectSelector):
    """Waits for no file, but lets the time pass for which it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Let the time pass."""
        if timeout is None:
            raise StuckError
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is in seconds, from 0 on; tasks belong to the host in whose context they are made."""

    def __init__(self) -> None:
        self._leap = _Leap()
        super().__init__(self._leap)
        self._clock_resolution = 1e-6
        self.set_task_factory(owned_task)
        self.set_exception_handler(self._note)
        #: What was raised where nobody could catch it.
        self.unhandled: list[str] = []

    def time(self) -> float:
        """Give the virtual time."""
        return self._leap.now

    def _note(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        self.unhandled.append(f"{context.get('message')}: {type(error).__name__}: {error}")
