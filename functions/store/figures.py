"""What the store has asked of Table Storage since this process started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StoreFigures:
    """Counts of requests (`transactions`, `reads`) and of rows written (`operations`)."""

    transactions: int = 0
    operations: int = 0
    reads: int = 0
