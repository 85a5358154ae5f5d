"""What sweeps and housekeeping share: bounded concurrency, survival of errors, a report of what was done."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, assert_never

from functions.pattern.errors import TransientError, UnreadableError
from functions.pattern.events import (
    DecisionDue,
    Eased,
    Extended,
    GivenUp,
    Judgement,
    Parked,
    Postponed,
    Recovered,
    Resumed,
)
from functions.pattern.records import TaskRecord
from functions.pattern.silent_agents import asked_at, waited_until
from functions.pattern.wait_events import WaitsEnded

_log = logging.getLogger(__name__)


async def for_each[ItemT](
    items: Iterable[ItemT], work: Callable[[ItemT], Awaitable[None]], *, at_once: int
) -> None:
    """Do `work` for every item, for `at_once` of them at a time; when one raises, the rest is cancelled."""
    gate = asyncio.Semaphore(at_once)

    async def one(item: ItemT) -> None:
        async with gate:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))


@dataclass(slots=True)
class Report:
    """Counters of a sweep; as text, those that are not zero.

    `failures` counts what an error left unchanged; `unfinished` says that there was more to do; `damage` are
    rows that can't be read, by their keys.
    """

    failures: int = 0
    unfinished: bool = False
    damage: dict[str, UnreadableError] = field(default_factory=dict)

    @contextmanager
    def surviving(self, what: str) -> Iterator[None]:
        """Count and log an error of the block, and go on: one task's failure never stops a sweep."""
        try:
            yield
        except UnreadableError as error:
            self.found_damaged([error])
        except TransientError as fault:
            self.failures += 1
            _log.warning("%s: left to the next run (%s)", what, fault)
        except Exception:  # noqa: BLE001 - whatever one task does, the others must be looked at
            self.failures += 1
            _log.exception("%s: a defect, left to the next run", what)

    def found_damaged(self, rows: Iterable[UnreadableError]) -> None:
        """Keep in mind rows that can't be read; the sweep has passed over them."""
        self.damage |= {row.key: row for row in rows}

    @asynccontextmanager
    async def bounded(self, seconds: float) -> AsyncIterator[None]:
        """Cut the block short after `seconds`; the next run finds what it was doing."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            self.unfinished = True

    def figures(self) -> dict[str, Any]:
        """Give the counters by their names."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        counters = {name: value for name, value in named.items() if not isinstance(value, dict)}
        return counters | {"unreadable": len(self.damage)}

    def __str__(self) -> str:
        return json.dumps({name: value for name, value in self.figures().items() if value})


@dataclass(slots=True)
class SweepReport(Report):
    """What one sweep found and did. `oldest_overdue` is in seconds.

    The `overdue` tasks are `recovered`, `given_up`, `parked`, `ended_as_decided` or as is known, or
    `overtaken` by another writer, others `postponed`; of the parked ones, some are `released`. Those that are
    late in a crowd are `extended`, their Schedulers `asked_again`, or `resumed` in another epoch, uncounted.
    The waits of those that `waited` are over; so are those of `parked` ones that nobody could tell an event.
    `asked` are the times at which Agents behind queues were asked, by Agent, for whom overdue tasks wait.
    `stale` index entries led to no task under way; `sent` and `dropped` are announcements left over.
    """

    found: int = 0
    postponed: int = 0
    overdue: int = 0
    recovered: int = 0
    given_up: int = 0
    extended: int = 0
    asked_again: int = 0
    resumed: int = 0
    parked: int = 0
    ended_as_decided: int = 0
    waited: int = 0
    overtaken: int = 0
    released: int = 0
    stale: int = 0
    sent: int = 0
    dropped: int = 0
    oldest_overdue: float = 0
    asked: dict[str, list[datetime]] = field(default_factory=dict)

    def is_overdue(self, record: TaskRecord, now: datetime, *, with_many: bool) -> None:
        """Count a task, and keep in mind since when it waited for which Agents; `with_many`, until when."""
        self.overdue += 1
        overdue = now - (record.task.complete_by or record.task.due_at)
        self.oldest_overdue = max(self.oldest_overdue, overdue.total_seconds())
        times = waited_until(record, now) if with_many else asked_at(record, now)
        for agent, at in times.items():
            self.asked.setdefault(agent, []).append(at)

    def count(self, done: Judgement | Eased | Parked) -> None:
        """Count what was done about a task."""
        match done:
            case Postponed():
                self.postponed += 1
            case Recovered():
                self.recovered += 1
            case Extended():
                self.extended += not done.asks
                self.asked_again += done.asks
            case Resumed():
                self.resumed += 1
            case GivenUp():
                self.given_up += 1
            case Parked():
                self.parked += 1
            case DecisionDue():
                self.ended_as_decided += 1
            case WaitsEnded():
                self.waited += 1
            case _:
                assert_never(done)


@dataclass(slots=True)
class FullSweepReport(Report):
    """What a full sweep read, and which index rows it had to fix."""

    tasks: int = 0
    index_rows: int = 0
    created: int = 0
    deleted: int = 0
