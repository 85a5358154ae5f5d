"""Reads all that the console's first page shows: counted by the indexes, never by reading all tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from functions.operations.overview.last_hour import (
    MinuteView,
    VersionLine,
    WorkflowLine,
    by_version,
    by_workflow,
    first_minute,
    minutes,
)
from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.definition import Registry
from functions.pattern.intake import IntakeState, read_intake
from functions.pattern.known_crowds import Crowd
from functions.pattern.occurrences import TaskCounter
from functions.pattern.ports import Clock, Ports, QueueDepth
from functions.pattern.ramp import limit_of
from functions.pattern.shared_rows import Chore
from functions.pattern.shares import live
from functions.pattern.silent_agents import SilentAgent, read_silences
from functions.pattern.store_ports import Index, IndexPage, TaskIndex
from functions.supervisor.crowds import read_crowds


class CircuitView(BaseModel):
    """The circuit of a remote service, and how many of its calls may be in flight, and are, in all instances.

    `limit` is the lower one of `at_once`, which is set, and `ramp`, which grows after an outage. Null: none.
    Instances say every few seconds what is `in_flight`, and how many places they have `wanted`.
    """

    service: str
    state: BreakerState
    since: datetime
    failures: int
    probe_at: datetime | None
    last_error: str | None
    at_once: int | None
    ramp: int | None
    limit: int | None
    in_flight: int | None
    wanted: int | None

    @classmethod
    def of(cls, record: BreakerRecord, now: datetime) -> CircuitView:
        """Show a record as of `now`."""
        limit, shares = limit_of(record, record.at_once), live(record.shares, now)
        return cls(
            service=record.service,
            state=record.state,
            since=record.since,
            failures=record.failures,
            probe_at=record.probe_at,
            last_error=record.last_error,
            at_once=record.at_once,
            ramp=record.ramp,
            limit=limit,
            in_flight=None if limit is None else sum(share.in_flight for share in shares),
            wanted=None if limit is None else sum(share.wanted for share in shares),
        )


class Count(BaseModel):
    """A count that ends at what one request for each shard reads: `more` says that there are more."""

    count: int
    more: bool

    @classmethod
    def of(cls, pages: Iterable[IndexPage]) -> Count:
        """Count the entries of the first page of each shard."""
        read = list(pages)
        more = any(page.continuation is not None for page in read)
        return cls(count=sum(len(page.entries) for page in read), more=more)


class Overview(BaseModel):
    """How everything is, as of `at`; `supervisor` is its last sweep, null before the first one.

    `housekeeping` is the last deletion of what is past its retention; `unreadable` counts damaged index rows.
    Of `silent_agents`, behind queues, nothing was heard though tasks wait for them. Tasks in `crowds` are
    late together. The `intake` tells what waits to be recorded, null before that is measured. `last_hour` has
    the 60 complete minutes before `at`. Each process writes its counts some seconds after a minute, so those
    of the newest minute may be missing.
    """

    at: datetime
    under_way: Count
    overdue: Count
    parked: Count
    in_error: Count
    last_hour: list[MinuteView]
    workflows: list[WorkflowLine]
    versions: list[VersionLine]
    supervisor: dict[str, Any] | None
    housekeeping: dict[str, Any] | None
    unreadable: int
    breakers: list[CircuitView]
    silent_agents: list[SilentAgent]
    crowds: list[Crowd]
    intake: IntakeState | None
    queues: list[QueueDepth]


class OverviewReader:
    """Reads the overview in three requests for each shard and eight more, beside looking into the queues."""

    def __init__(self, ports: Ports, registry: Registry) -> None:
        self._ports = ports
        self._registry = registry
        # A look into the queues brings their messages' bodies along.
        self._queues = Remembered(ports.queues.depths, seconds=5, clock=ports.clock)
        self._hour = Remembered(self._read_hour, seconds=15, clock=ports.clock)
        self._overview = Remembered(self._read, seconds=2, clock=ports.clock)

    async def read(self) -> Overview:
        """Give the overview, at most 2 seconds old. Raises `TransientError`."""
        return await self._overview.get()

    async def _read(self) -> Overview:
        now, index = self._ports.clock.now(), self._ports.index
        (due, parked, errors), beats, breakers, queues, counts = await asyncio.gather(
            asyncio.gather(*(_first_pages(index, each) for each in (Index.DUE, Index.PARKED, Index.ERROR))),
            self._heartbeats(),
            self._ports.breakers.every(),
            self._queues.get(),
            self._hour.get(),
        )
        sweep, housekeeping, silence, crowds, intake = beats
        read = {Index.DUE: due, Index.PARKED: parked, Index.ERROR: errors}
        entries = [(which, each) for which, pages in read.items() for page in pages for each in page.entries]
        return Overview(
            at=now,
            under_way=Count.of(due),
            overdue=Count.of(_overdue(page, now) for page in due),
            parked=Count.of(parked),
            in_error=Count.of(errors),
            last_hour=minutes(counts, now),
            workflows=by_workflow(entries, now),
            versions=by_version(entries, self._registry),
            supervisor=sweep,
            housekeeping=housekeeping,
            unreadable=sum(len(page.unreadable) for page in (*due, *parked, *errors)),
            breakers=[CircuitView.of(record, now) for record in breakers],
            silent_agents=list(read_silences(silence)),
            crowds=list(read_crowds(crowds)),
            intake=read_intake(intake),
            queues=list(queues),
        )

    async def _read_hour(self) -> Mapping[datetime, Mapping[TaskCounter, int]]:
        return await self._ports.minute_counts.since(first_minute(self._ports.clock.now()))

    async def _heartbeats(self) -> list[dict[str, Any] | None]:
        latest = self._ports.heartbeats.latest
        chores = (Chore.SWEEP, Chore.HOUSEKEEPING, Chore.SILENCE, Chore.CROWDS, Chore.INTAKE)
        read = await asyncio.gather(*map(latest, chores))
        return [None if figures is None else dict(figures) for figures in read]


class Remembered[ValueT]:
    """Gives what was read less than `seconds` ago, or reads it; callers meanwhile wait for that reading."""

    def __init__(self, read: Callable[[], Awaitable[ValueT]], *, seconds: float, clock: Clock) -> None:
        self._read = read
        self._keep = timedelta(seconds=seconds)
        self._clock = clock
        self._reading = asyncio.Lock()
        self._kept: ValueT | None = None
        self._until = clock.now()

    async def get(self) -> ValueT:
        """Give it. Raises what the reading raises; the next caller reads again."""
        async with self._reading:
            if self._kept is None or self._clock.now() >= self._until:
                self._kept = await self._read()
                self._until = self._clock.now() + self._keep
            return self._kept


async def _first_pages(index: TaskIndex, which: Index) -> list[IndexPage]:
    # Table Storage returns at most 1,000 rows in one request.
    pages = (index.page(which, shard, most=1_000) for shard in range(index.shards))
    return await asyncio.gather(*pages)


def _overdue(page: IndexPage, now: datetime) -> IndexPage:
    """Keep of a page what is due; entries come by time, so what is not ends the list."""
    due = tuple(entry for entry in page.entries if entry.at <= now)
    return IndexPage(due, page.continuation if len(due) == len(page.entries) else None)
