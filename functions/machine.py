"""What the machine gives: the time, ids that nobody else has, and when garbage is collected."""

from __future__ import annotations

import gc
import secrets
from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the machine's time in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Make an id that nobody else has: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def collect_garbage_rarely() -> None:
    """Collect garbage less often: it took a seventh of a busy process's time (docs/performance.md)."""
    gc.freeze()
    gc.set_threshold(5_000, 3, 1_000)  # new objects, and then younger collections: short pauses
