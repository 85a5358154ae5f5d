"""All that the console's first page shows, out of one request: counted by the indexes, never by all tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from functions.operations.finished import MOST_PER_REQUEST, Finished, finished_lately
from functions.operations.freshness import Remembered
from functions.operations.last_hour import (
    MINUTES,
    EndToEnd,
    Minute,
    WorkflowLine,
    by_workflow,
    end_of_hour,
    end_to_end,
    minutes,
)
from functions.operations.summary import Breakers, BreakerView, Heartbeats, Tally
from functions.pattern.ports import Clock, QueueDepth, Queues
from functions.pattern.store_ports import (
    Index,
    IndexEntry,
    IndexPage,
    TaskIndex,
)

#: Looking into queues brings their messages' bodies along.
_QUEUES_SECONDS = 5

#: However many look, the indexes are read so often at most.
_OVERVIEW_SECONDS = 2


class PileView(BaseModel):
    """Messages that lie in one place; `more` says that there are more than `count`."""

    model_config = ConfigDict(from_attributes=True)

    count: int
    more: bool
    oldest_at: datetime | None
    scheduled: int


class QueueView(BaseModel):
    """One queue and its dead letters; null is what could not be looked at."""

    model_config = ConfigDict(from_attributes=True)

    queue: str
    waiting: PileView | None
    dead: PileView | None


class FinishedView(BaseModel):
    """What finished at `since` or later, which is within the last hour; `more` says that some is missing."""

    since: datetime
    more: bool
    processed: int
    compensated: int
    end_to_end: EndToEnd | None


class Overview(BaseModel):
    """How everything is, as of `at`."""

    at: datetime
    under_way: Tally
    overdue: Tally
    in_error: Tally
    finished: FinishedView
    workflows: list[WorkflowLine]
    minutes: list[Minute]
    supervisor: dict[str, Any] | None
    breakers: list[BreakerView]
    queues: list[QueueView]


class OverviewReader:
    """Reads the overview in at most three requests for each shard and five more."""

    def __init__(
        self, *, index: TaskIndex, heartbeats: Heartbeats, breakers: Breakers, queues: Queues, clock: Clock
    ) -> None:
        self._index = index
        self._heartbeats = heartbeats
        self._breakers = breakers
        self._queues = Remembered(queues.depths, seconds=_QUEUES_SECONDS, clock=clock)
        self._overview = Remembered(self._read, seconds=_OVERVIEW_SECONDS, clock=clock)
        self._clock = clock

    async def read(self) -> Overview:
        """Give the overview, at most 2 seconds old. Raises `TransientError`."""
        return await self._overview.get()

    async def _read(self) -> Overview:
        now = self._clock.now()
        due, errors, finished, heartbeat, breakers, queues = await asyncio.gather(
            self._pages(Index.DUE),
            self._pages(Index.ERROR),
            finished_lately(self._index, until=end_of_hour(now), minutes=MINUTES),
            self._heartbeats.latest(),
            self._breakers.every(),
            self._queues.get(),
        )
        entries = [
            *_labelled(Index.DUE, _entries(due)),
            *_labelled(Index.ERROR, _entries(errors)),
            *_labelled(Index.DONE, finished.entries),
        ]
        return Overview(
            at=now,
            under_way=Tally.of(due),
            overdue=Tally.until(due, now),
            in_error=Tally.of(errors),
            finished=_finished_view(finished, workflows := by_workflow(entries, now)),
            workflows=workflows,
            minutes=minutes(entries, until=end_of_hour(now), finished_since=finished.since),
            supervisor=None if heartbeat is None else dict(heartbeat),
            breakers=[BreakerView.model_validate(each) for each in breakers],
            queues=_queue_views(queues),
        )

    async def _pages(self, index: Index) -> list[IndexPage]:
        shards = range(self._index.shards)
        pages = (self._index.page(index, each, most=MOST_PER_REQUEST) for each in shards)
        return await asyncio.gather(*pages)


def _entries(pages: Iterable[IndexPage]) -> Iterable[IndexEntry]:
    return (entry for page in pages for entry in page.entries)


def _labelled(index: Index, entries: Iterable[IndexEntry]) -> Iterable[tuple[Index, IndexEntry]]:
    return ((index, entry) for entry in entries)


def _finished_view(finished: Finished, workflows: Sequence[WorkflowLine]) -> FinishedView:
    return FinishedView(
        since=finished.since,
        more=finished.more,
        processed=sum(line.processed for line in workflows),
        compensated=sum(line.compensated for line in workflows),
        end_to_end=end_to_end(finished.entries),
    )


def _queue_views(queues: Sequence[QueueDepth]) -> list[QueueView]:
    return [QueueView.model_validate(each) for each in queues]
