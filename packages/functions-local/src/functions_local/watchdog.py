"""Names the function that blocks the event loop.

Host and functions share one loop, which is the fastest way; its price is that an `async def` function which
computes or waits without `await` stops everything. A thread looks at the loop's heartbeat and says who is at
fault.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

from functions_local.worker.bridge import invocation_id_in

log = logging.getLogger(__name__)

LIMIT = 1.0
_BEAT = 0.25


class LoopWatchdog:
    """Warns once for each time the loop stands still for longer than `limit` seconds."""

    def __init__(self, label: Callable[[str | None], str | None], *, limit: float = LIMIT) -> None:
        self._label = label
        self._limit = limit
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._beat()
        threading.Thread(target=self._watch, name="loop-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the watch."""
        self._stopped.set()

    def _beat(self) -> None:
        self._last_beat = time.monotonic()
        if not self._stopped.is_set():
            self._loop.call_later(_BEAT, self._beat)

    def _watch(self) -> None:
        reported = 0.0
        while not self._stopped.wait(_BEAT):
            beat = self._last_beat
            if beat != reported and time.monotonic() - beat > self._limit + _BEAT:
                reported = beat
                log.warning("%s", self._accusation())

    def _accusation(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001  the documented way to see another thread
        where = traceback.extract_stack(frame)[-1] if frame else None
        place = f" at {where.filename}:{where.lineno}" if where else ""
        return (
            f"{self._culprit()} has blocked the event loop for more than {self._limit:g} s{place}: "
            "use `def`, which runs on a thread, or await"
        )

    def _culprit(self) -> str:
        task = asyncio.current_task(self._loop)
        invocation_id = invocation_id_in(task.get_context()) if task else None
        return f"function {self._label(invocation_id)}" if invocation_id else "the host itself"
