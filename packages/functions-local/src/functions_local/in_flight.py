"""The invocations in flight: their ids, names and timeouts, and a wait for their end."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """One invocation."""

    function: str
    #: When it started, on the loop's clock.
    started: float
    #: The task that runs it, or that waits for its thread.
    task: asyncio.Task[Any] | None
    #: Whether it has run for too long and its task has been cancelled.
    overdue: bool = False


class InFlight:
    """Every invocation between its start and its end, in the order of the starts."""

    def __init__(self, timeout: timedelta | None) -> None:
        self._timeout = timeout.total_seconds() if timeout else None
        self._running: dict[str, _Running] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._watch: asyncio.TimerHandle | None = None
        self._any_overdue = False
        # Has the form of a UUID: a prefix for the process and a counter, which is faster than random ids.
        self._id_prefix = str(uuid.uuid4())[:24]
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, function: str) -> str:
        """Add an invocation of the function, and return its id."""
        invocation_id = f"{self._id_prefix}{next(self._numbers):012x}"
        now = asyncio.get_running_loop().time()
        self._running[invocation_id] = _Running(function, now, asyncio.current_task())
        self._idle.clear()
        if self._timeout is not None and self._watch is None:
            self._watch_until(now + self._timeout)
        return invocation_id

    def end(self, invocation_id: str) -> None:
        """Remove an invocation."""
        del self._running[invocation_id]
        if not self._running:
            self._idle.set()

    def was_overdue(self, invocation_id: str) -> bool:
        """Whether only the timeout cancelled the invocation's task; uncancels the task."""
        running = self._running[invocation_id]
        return running.overdue and running.task is not None and running.task.uncancel() == 0

    def name_of(self, invocation_id: str) -> str:
        """Return the function that the invocation runs, or `ended`."""
        running = self._running.get(invocation_id)
        return "ended" if running is None else running.function

    async def drain(self, seconds: float) -> bool:
        """Wait at most `seconds` until no invocation is in flight.

        Return whether no invocation is still running: a thread may outlive its invocation.
        """
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            names = sorted({running.function for running in self._running.values()})
            _log.warning("stopped after %g s without waiting for: %s", seconds, ", ".join(names))
            return False
        return not self._any_overdue

    def _watch_until(self, moment: float) -> None:
        self._watch = asyncio.get_running_loop().call_at(moment, self._end_overdue)

    def _end_overdue(self) -> None:
        """Cancel overdue invocations. One timer serves all: the oldest is first, and most end in time."""
        assert self._timeout is not None  # noqa: S101 - nothing is watched without one
        self._watch = None
        now = asyncio.get_running_loop().time()
        for running in self._running.values():
            if running.overdue:
                continue
            if running.started + self._timeout > now:
                self._watch_until(running.started + self._timeout)
                return
            running.overdue = self._any_overdue = True
            if running.task is not None:
                running.task.cancel()
