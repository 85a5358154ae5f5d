"""What the application logs as a defect of its own, and goes on: its ends alone do not tell of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from functions.pattern.errors import TransientError
from functions.pattern.readiness import NotDeployedError

#: What goes wrong around the application, and is logged with where it was met.
_EXPECTED = (TransientError, NotDeployedError)


class _Defects(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record of an error that should never be raised."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, _EXPECTED):
            self._found.append(f"{record.getMessage()}: {type(error).__name__}: {error}")


@contextmanager
def defects_in(found: list[str]) -> Iterator[None]:
    """Add what the block logs to `found`; nothing else is logged: the timeline tells what happened."""
    application, handler = logging.getLogger("functions"), _Defects(found)
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    application.addHandler(handler)
    application.propagate = False
    try:
        yield
    finally:
        application.propagate = True
        application.removeHandler(handler)
        logging.disable(disabled)
