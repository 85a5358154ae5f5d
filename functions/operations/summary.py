"""The whole at a glance: tasks under way, overdue and in `Error`, the last sweep, circuit breakers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.ports import Clock
from functions.pattern.store_ports import Index, IndexPage, TaskIndex

#: Entries that are counted in each shard, in one request.
_MOST_PER_SHARD = 100


class Heartbeats(Protocol):
    """The Supervisor's sign of life."""

    async def latest(self) -> Mapping[str, Any] | None:
        """Read the figures of the last sweep, or None when there was none. Raises `TransientError`."""


class Breakers(Protocol):
    """The circuit breakers of the remote services, of which each has a record once it was open."""

    async def every(self) -> Sequence[BreakerRecord]:
        """Read all records, in one request. Raises `TransientError`."""


class Tally(BaseModel):
    """A count that was not carried further than it is worth: `more` says that there are more than that."""

    count: int
    more: bool

    @classmethod
    def of(cls, pages: Iterable[IndexPage]) -> Tally:
        """Count the entries of the first page of each shard."""
        read = list(pages)
        return cls(
            count=sum(len(page.entries) for page in read),
            more=any(page.continuation is not None for page in read),
        )

    @classmethod
    def until(cls, pages: Iterable[IndexPage], now: datetime) -> Tally:
        """Count the entries that are due."""
        return cls.of(_due(page, now) for page in pages)


class BreakerView(BaseModel):
    """How one remote service is doing: `probe_at` is when it may be tried again, null while it is called."""

    model_config = ConfigDict(from_attributes=True)

    service: str
    state: BreakerState
    since: datetime
    failures: int
    probe_at: datetime | None
    last_error: str | None


class Summary(BaseModel):
    """How the tasks are, the Supervisor, and the remote services that were ever left alone."""

    under_way: Tally
    overdue: Tally
    in_error: Tally
    supervisor: dict[str, Any] | None
    breakers: list[BreakerView]


class SummaryReader:
    """Counts tasks by their indexes, with one request for each shard and index."""

    def __init__(self, *, index: TaskIndex, heartbeats: Heartbeats, breakers: Breakers, clock: Clock) -> None:
        self._index = index
        self._heartbeats = heartbeats
        self._breakers = breakers
        self._clock = clock

    async def read(self) -> Summary:
        """Count. Raises `TransientError`."""
        now = self._clock.now()
        due, errors, heartbeat, breakers = await asyncio.gather(
            self._pages(Index.DUE),
            self._pages(Index.ERROR),
            self._heartbeats.latest(),
            self._breakers.every(),
        )
        return Summary(
            under_way=Tally.of(due),
            overdue=Tally.until(due, now),
            in_error=Tally.of(errors),
            supervisor=None if heartbeat is None else dict(heartbeat),
            breakers=[BreakerView.model_validate(record) for record in breakers],
        )

    async def _pages(self, index: Index) -> list[IndexPage]:
        shards = range(self._index.shards)
        return await asyncio.gather(*(self._index.page(index, each, most=_MOST_PER_SHARD) for each in shards))


def _due(page: IndexPage, now: datetime) -> IndexPage:
    """Keep of a page what is due; entries come by time, so what is not ends the list."""
    due = tuple(entry for entry in page.entries if entry.at <= now)
    return IndexPage(due, page.continuation if len(due) == len(page.entries) else None)
