"""The invocations that run now: their ids and names, what is overdue, and waiting until none is left."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Running:
    """One invocation."""

    function: str
    #: When it started, on the loop's clock.
    started: float
    #: Whether it has been reported as overdue.
    reported: bool = False


class InFlight:
    """Every invocation between its start and its end, in the order of the starts."""

    def __init__(self, timeout: timedelta | None) -> None:
        self._timeout = timeout.total_seconds() if timeout else None
        self._running: dict[str, _Running] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._watch: asyncio.TimerHandle | None = None
        # The form of a UUID; its first part is this process's own, and a counter costs less than randomness.
        self._id_prefix = str(uuid.uuid4())[:24]
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, function: str) -> str:
        """Add an invocation of the function, and return its id."""
        invocation_id = f"{self._id_prefix}{next(self._numbers):012x}"
        now = asyncio.get_running_loop().time()
        self._running[invocation_id] = _Running(function, now)
        self._idle.clear()
        if self._timeout is not None and self._watch is None:
            self._watch_until(now + self._timeout)
        return invocation_id

    def end(self, invocation_id: str) -> None:
        """Remove an invocation."""
        del self._running[invocation_id]
        if not self._running:
            self._idle.set()

    def name_of(self, invocation_id: str) -> str:
        """Return the function that the invocation runs, or `ended`."""
        running = self._running.get(invocation_id)
        return "ended" if running is None else running.function

    async def drain(self, seconds: float) -> bool:
        """Wait at most `seconds` until no invocation is in flight; return whether that was reached."""
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            names = sorted({running.function for running in self._running.values()})
            _log.warning("stopped after %g s without waiting for: %s", seconds, ", ".join(names))
            return False
        return True

    def _watch_until(self, moment: float) -> None:
        self._watch = asyncio.get_running_loop().call_at(moment, self._report_overdue)

    def _report_overdue(self) -> None:
        """Report who has run too long. One timer serves all: the oldest comes first, and most end in time."""
        assert self._timeout is not None  # noqa: S101 - nothing is watched without one
        self._watch = None
        now = asyncio.get_running_loop().time()
        for invocation_id, running in self._running.items():
            if running.reported:
                continue
            if running.started + self._timeout > now:
                self._watch_until(running.started + self._timeout)
                return
            running.reported = True
            _log.error(
                "function %s has run longer than functionTimeout (%g s); "
                "Azure would end it here (invocation %s)",
                *(running.function, self._timeout, invocation_id),
            )
