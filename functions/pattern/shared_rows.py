"""Single rows that all instances share: heartbeats and circuit breakers; `store/` holds the adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from functions.pattern.breaker import BreakerRecord


class Chore(StrEnum):
    """What timers do, and leave figures of."""

    #: The Supervisor's sweep.
    SWEEP = "supervisor"
    #: The comparison of all tasks with their index rows.
    FULL_SWEEP = "full-sweep"
    #: The purge of tasks that are past their retention.
    HOUSEKEEPING = "housekeeping"
    #: What operators were told of rows that can't be read.
    DAMAGE = "damage"
    #: What operators were told of Agents that answer nothing.
    SILENCE = "silence"
    #: What operators were told of tasks that are late together.
    CROWDS = "crowds"
    #: How much waits to be taken in.
    INTAKE = "intake"


class Heartbeats(Protocol):
    """A row for each chore, with the figures of its latest run. Its methods raise `TransientError`."""

    async def beat(self, chore: Chore, figures: Mapping[str, Any]) -> None:
        """Replace the figures of the run before."""

    async def latest(self, chore: Chore) -> Mapping[str, Any] | None:
        """Read the latest figures by their names, or None before the first run."""


class Occasion(StrEnum):
    """What times are kept of."""

    #: An Agent behind a queue replied, by its name.
    REPLIED = "replied"
    #: Operators were alerted of a refused reply, by its Agent and the kind of its fault.
    REFUSED = "refused"


class Times(Protocol):
    """Times in UTC, by occasion and name, that all instances share. Its methods raise `TransientError`."""

    async def note(self, occasion: Occasion, name: str, now: datetime, every: timedelta) -> bool:
        """Keep the time, unless there is one of less than `every` ago; tell whether it was kept."""

    async def latest(self, occasion: Occasion) -> Mapping[str, datetime]:
        """Read the times of an occasion, by their names."""


class SharedContent(Protocol):
    """A few bytes that all instances share, and change one after another. It raises `TransientError`."""

    async def read(self) -> bytes | None:
        """Read them; None before they were written."""

    async def change[ResultT](self, change: Callable[[bytes | None], tuple[bytes, ResultT]]) -> ResultT:
        """Replace what is there by what `change` makes of it, which is called again after a conflict."""


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
    """One row for each remote service whose circuit was ever open. Its methods raise `TransientError`."""

    async def read(self, service: str) -> StoredBreaker | None:
        """Read a service's row, or None when its circuit was never open."""

    async def swap(self, record: BreakerRecord, version: str | None) -> Swap:
        """Write the service's row if it is still at `version` (None: not there)."""

    async def every(self) -> Sequence[BreakerRecord]:
        """Read all rows, in one request."""
