"""The clock, random ids, and the settings of the garbage collector."""

from __future__ import annotations

import gc
import secrets
from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the machine's time in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Return a random id: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def collect_garbage_rarely() -> None:
    """Collect garbage less often: it took a seventh of a busy process's time (docs/performance.md)."""
    gc.freeze()
    gc.set_threshold(5_000, 3, 1_000)  # new objects, and then younger collections: short pauses
