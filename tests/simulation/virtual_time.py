"""An event loop in which a wait takes no real time."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer. Its time is in seconds from 0 on."""

    def __init__(self) -> None:
        self.virtual = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.virtual


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Advance the time to the next timer."""
        if timeout is None:
            raise AssertionError("no timer is left: the search would never end")
        self._loop.virtual += max(0.0, timeout)
        return []
