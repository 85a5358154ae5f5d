"""Reads all that the console's first page shows: counted by the indexes, never by reading all tasks."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.definition import Registry, Workflow
from functions.pattern.intake import IntakeState, read_intake
from functions.pattern.known_crowds import Crowd
from functions.pattern.occurrences import TaskCounter
from functions.pattern.ports import Clock, Ports, QueueDepth
from functions.pattern.ramp import limit_of
from functions.pattern.shared_rows import Chore
from functions.pattern.shares import live
from functions.pattern.silent_agents import SilentAgent, read_silences
from functions.pattern.store_ports import Index, IndexEntry, IndexPage, TaskIndex
from functions.supervisor.crowds import read_crowds

_NEEDS = {Index.DUE: "under_way", Index.PARKED: "parked", Index.ERROR: "in_error"}


class MinuteView(BaseModel):
    """The counts of tasks in the minute that began `at` that time."""

    at: datetime
    accepted: int
    processed: int
    compensated: int
    error: int
    recovered: int


class VersionLine(BaseModel):
    """The tasks of one version of a workflow that still need it; one that none needs can be dropped."""

    workflow: str
    version: int
    deployed: bool
    under_way: int = 0
    parked: int = 0
    in_error: int = 0


class WorkflowLine(BaseModel):
    """The tasks of one workflow that are not finished."""

    workflow: str
    under_way: int = 0
    overdue: int = 0
    parked: int = 0
    in_error: int = 0


def first_minute(now: datetime) -> datetime:
    """Return the first of the 60 complete minutes before `now`."""
    return now.replace(second=0, microsecond=0) - timedelta(hours=1)


def minutes(counts: Mapping[datetime, Mapping[TaskCounter, int]], now: datetime) -> list[MinuteView]:
    """Return the last hour, minute by minute. The newest minute may lack counts for some seconds."""
    times = [first_minute(now) + timedelta(minutes=number) for number in range(60)]
    return [
        MinuteView(at=at, **{each.value: counts.get(at, {}).get(each, 0) for each in TaskCounter})
        for at in times
    ]


def by_workflow(entries: Iterable[tuple[Index, IndexEntry]], now: datetime) -> list[WorkflowLine]:
    """Count for each workflow, by name."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for index, entry in entries:
        is_overdue = index is Index.DUE and entry.at <= now
        counts[entry.workflow].update([_NEEDS[index], "overdue"] if is_overdue else [_NEEDS[index]])
    return [WorkflowLine(workflow=name, **counts[name]) for name in sorted(counts)]


def by_version(
    entries: Iterable[tuple[Index, IndexEntry]], deployed: Iterable[Workflow]
) -> list[VersionLine]:
    """Count for each version that is deployed or needed, by name and number."""
    here = {(each.name, each.version) for each in deployed}
    counts: dict[tuple[str, int], Counter[str]] = {version: Counter() for version in here}
    for index, entry in entries:
        counts.setdefault((entry.workflow, entry.version), Counter())[_NEEDS[index]] += 1
    return [
        VersionLine(workflow=name, version=version, deployed=(name, version) in here, **counts[name, version])
        for name, version in sorted(counts)
    ]


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
        chores = (Chore.SWEEP, Chore.HOUSEKEEPING, Chore.SILENCE, Chore.CROWDS, Chore.INTAKE)
        (due, parked, errors), beats, breakers, queues, counts = await asyncio.gather(
            asyncio.gather(*(_first_pages(index, each) for each in (Index.DUE, Index.PARKED, Index.ERROR))),
            asyncio.gather(*map(self._ports.heartbeats.latest, chores)),
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
            supervisor=None if sweep is None else dict(sweep),
            housekeeping=None if housekeeping is None else dict(housekeeping),
            unreadable=sum(len(page.unreadable) for page in (*due, *parked, *errors)),
            breakers=[CircuitView.of(record, now) for record in breakers],
            silent_agents=list(read_silences(silence)),
            crowds=list(read_crowds(crowds)),
            intake=read_intake(intake),
            queues=list(queues),
        )

    async def _read_hour(self) -> Mapping[datetime, Mapping[TaskCounter, int]]:
        return await self._ports.minute_counts.since(first_minute(self._ports.clock.now()))


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
