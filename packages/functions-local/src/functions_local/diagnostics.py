"""Diagnostics of running functions: labelled log lines, and warnings about a blocked event loop.

Host and functions share one event loop, for speed. So an `async def` function that computes or waits without
`await` blocks the host, and so does an orchestrator that does more than plan. A thread watches the loop and
logs the name of the blocking function.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

from functions_local.worker import invocation_id_in

_log = logging.getLogger(__name__)

#: Seconds for which the loop may be blocked before a warning.
LIMIT = 1.0
#: Seconds between two heartbeats of the loop.
_BEAT = 0.25

_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(invocation)s%(message)s"

#: Loggers that write a line for each frame, request or invocation at INFO.
_CHATTY = ("azure", "uamqp", "aiohttp.access", "asyncio", "httpx", "httpcore", "urllib3")


class InvocationLabel(logging.Filter):
    """Prefixes a function's log lines with `[function invocation-id] `, on the loop and on threads."""

    def __init__(self, label: Callable[[], str | None]) -> None:
        super().__init__()
        self._label = label

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the label; never drops a record."""
        label = self._label()
        record.invocation = f"[{label}] " if label else ""
        return True


def configure_logging(label: Callable[[], str | None], *, verbose: bool) -> None:
    """Send every logger's lines to stderr; `verbose` shows libraries and debug lines too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT, datefmt="%H:%M:%S"))
    handler.addFilter(InvocationLabel(label))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler], force=True)
    if not verbose:
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)


class LoopWatchdog:
    """Warns once each time the loop is blocked for longer than `limit` seconds."""

    def __init__(self, label: Callable[[str | None], str | None], *, limit: float = LIMIT) -> None:
        self._label = label
        self._limit = limit
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start watching the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._beat()
        threading.Thread(target=self._watch, name="loop-watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
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
                _log.warning("%s", self._warning())

    def _warning(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the documented way to see another thread
        where = traceback.extract_stack(frame)[-1] if frame else None
        place = f" at {where.filename}:{where.lineno}" if where else ""
        return (
            f"{self._blocker()} has blocked the event loop for more than {self._limit:g} s{place}: "
            "use `def`, which runs on a thread, or await; an orchestrator must only compute"
        )

    def _blocker(self) -> str:
        task = asyncio.current_task(self._loop)
        invocation_id = invocation_id_in(task.get_context()) if task else None
        return f"function {self._label(invocation_id)}" if invocation_id else "the host itself"
