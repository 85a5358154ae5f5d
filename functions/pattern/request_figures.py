"""What this process has asked of its services since it started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StoreFigures:
    """Requests to Table Storage (`transactions`, `reads`) and rows written (`operations`)."""

    transactions: int = 0
    operations: int = 0
    reads: int = 0


@dataclass(slots=True)
class BusFigures:
    """Messages sent to Service Bus."""

    messages: int = 0
