"""The rows that the breakers of all instances share: what is needed of the state store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from functions.pattern.breaker import BreakerRecord


@dataclass(frozen=True, slots=True)
class StoredBreaker:
    """A record as it was read or written; `version` guards the next write (an ETag)."""

    record: BreakerRecord
    version: str


@dataclass(frozen=True, slots=True)
class Swap:
    """What came of a compare-and-swap: whether it was ours that was written, and what is there now."""

    won: bool
    there: StoredBreaker | None


class BreakerRows(Protocol):
    """One row for each remote service that was ever left alone. Its methods raise `TransientError`."""

    async def read(self, service: str) -> StoredBreaker | None:
        """Read a service's row, or None when it was never left alone."""

    async def swap(self, record: BreakerRecord, version: str | None) -> Swap:
        """Write the service's row if it is still at `version` (None: not there)."""

    async def every(self) -> Sequence[BreakerRecord]:
        """Read all rows, in one request."""
