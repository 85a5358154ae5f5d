"""The sweep: looks at the tasks whose time has come, and has the overdue ones recovered or given up.

Started by a timer. Its cost follows the number of tasks that are due, not of all tasks. A crash
anywhere leaves a task overdue, and the next sweep finds it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import assert_never

from functions.pattern.events import GivenUp, Postponed, Recovered, Refused, SupervisorEvent
from functions.pattern.ports import Clock
from functions.pattern.store_ports import (
    Heartbeat,
    Index,
    IndexEntry,
    StateStore,
    Stored,
    TaskIndex,
)
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.supervisor.concurrency import for_each
from functions.supervisor.figures import Beat, SweepFigures
from functions.supervisor.lease import Lease
from functions.supervisor.leftovers import Leftovers
from functions.telemetry.instruments import SWEEP_DURATION
from functions.telemetry.overdue import OVERDUE
from functions.telemetry.propagation import current_traceparent
from functions.telemetry.tasks import decision_span, sweep_span

_log = logging.getLogger(__name__)

#: Index entries that one request reads, and such requests for one shard in one sweep.
_PAGE = 100
_PAGES = 5
_SHARDS_AT_ONCE = 4
_TASKS_AT_ONCE = 10
#: What an intervention is called in traces.
_NAMES = {Recovered: "recover", GivenUp: "give up"}
#: Seconds after which a sweep is cut short; the host would end it after five minutes, with the process.
_LONGEST = 120


class Sweep:
    """One Supervisor's sweeps; `instance` names it in the heartbeat."""

    def __init__(
        self,
        *,
        index: TaskIndex,
        store: StateStore,
        policy: SupervisionPolicy,
        lease: Lease,
        leftovers: Leftovers,
        heartbeat: Heartbeat,
        clock: Clock,
        instance: str,
    ) -> None:
        self._index = index
        self._store = store
        self._policy = policy
        self._lease = lease
        self._leftovers = leftovers
        self._heartbeat = heartbeat
        self._clock = clock
        self._instance = instance

    async def run(self) -> SweepFigures | None:
        """Sweep once, or give None when another Supervisor does. Raises `TransientError`."""
        if not await self._lease.take():
            return None
        try:
            with sweep_span():
                return await self._sweep()
        finally:
            await self._lease.give_back()

    async def _sweep(self) -> SweepFigures:
        started_at = self._clock.now()
        figures = SweepFigures()
        async with figures.bounded(_LONGEST):
            shards = range(self._index.shards)
            await for_each(shards, partial(self._sweep_shard, figures), at_once=_SHARDS_AT_ONCE)
        beat = Beat(
            instance=self._instance, started_at=started_at, finished_at=self._clock.now(), figures=figures
        )
        SWEEP_DURATION.record((beat.finished_at - started_at).total_seconds())
        OVERDUE.set(figures.overdue)
        with figures.surviving("heartbeat"):
            await self._heartbeat.beat(beat.properties())
        return figures

    async def _sweep_shard(self, figures: SweepFigures, shard: int) -> None:
        with figures.surviving(f"shard {shard}: its overdue tasks"):
            await self._look_at_due(shard, figures)
        with figures.surviving(f"shard {shard}: its announcements"):
            await self._leftovers.tell(shard, figures)

    async def _look_at_due(self, shard: int, figures: SweepFigures) -> None:
        until = self._clock.now() - self._policy.skew
        after = None
        for _ in range(_PAGES):
            page = await self._index.page(Index.DUE, shard, until=until, after=after, most=_PAGE)
            await for_each(page.entries, partial(self._look_at, figures), at_once=_TASKS_AT_ONCE)
            after = page.continuation
            if after is None:
                return
        figures.unfinished = True

    async def _look_at(self, figures: SweepFigures, entry: IndexEntry) -> None:
        with figures.surviving(f"task {entry.task}"):
            figures.found += 1
            stored = await self._store.load(entry.task)
            event = None if stored is None else judge(stored.record, self._clock.now(), self._policy)
            if stored is None or event is None:
                figures.stale += 1
                _log.info("index entry %s of %s leads to no task under way", entry.at, entry.task)
                return
            await self._act(figures, stored, event)

    async def _act(self, figures: SweepFigures, stored: Stored, event: SupervisorEvent) -> None:
        if not isinstance(event, Postponed):
            figures.overdue += 1
            figures.oldest_overdue = max(figures.oldest_overdue, self._overdue_for(stored))
        if isinstance(await self._decide(stored, event), Refused):
            figures.overtaken += 1
            return
        match event:
            case Postponed():
                figures.postponed += 1
            case Recovered():
                figures.recovered += 1
            case GivenUp():
                figures.given_up += 1
            case _:
                assert_never(event)

    async def _decide(self, stored: Stored, event: SupervisorEvent) -> Stored | Refused:
        """Write the decision; what follows an intervention is linked to the span that it was made in."""
        if isinstance(event, Postponed):
            return await self._store.change(stored, event)
        with decision_span(stored.record, _NAMES[type(event)]):
            return await self._store.change(stored, replace(event, traceparent=current_traceparent()))

    def _overdue_for(self, stored: Stored) -> float:
        task = stored.record.task
        return (self._clock.now() - (task.complete_by or task.due_at)).total_seconds()
