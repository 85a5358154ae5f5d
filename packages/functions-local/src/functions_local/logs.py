"""The host's log: plain lines on stderr, each with the function and invocation it belongs to."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(invocation)s%(message)s"

#: Loggers that report at INFO what would drown the app's own lines (each frame, request or invocation).
_CHATTY = ("azure", "uamqp", "aiohttp.access", "asyncio", "httpx", "httpcore", "urllib3")


class InvocationLabel(logging.Filter):
    """Puts `[function invocation-id] ` before what a function logs, on the loop and on threads."""

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
