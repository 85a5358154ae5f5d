"""The tasks that finished lately, with one request for each shard and few more.

Tables are read forwards only. Where more tasks finished than one request reads, the newest are those
that are worth seeing; so the time looked back on is shortened until, by the sample of one shard, all of
it can be read.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions.pattern.store_ports import (
    Index,
    IndexEntry,
    IndexPage,
    TaskIndex,
)

MINUTE = timedelta(minutes=1)

#: What Table Storage gives in one request at most.
MOST_PER_REQUEST = 1_000

_SAMPLES = 4

#: Shards differ: the sample's time is shortened to this part of itself.
_MARGIN = 0.7


@dataclass(frozen=True, slots=True)
class Finished:
    """Tasks that finished at `since` or later; `more` says that some of those are missing."""

    entries: tuple[IndexEntry, ...]
    since: datetime
    more: bool


async def finished_lately(index: TaskIndex, *, until: datetime, minutes: int) -> Finished:
    """Read what finished in the last whole `minutes` before `until`, or in fewer when there is too much.

    It takes at most one request for each shard and 3 more. Raises `TransientError`.
    """
    since, sample = await _sampled(index, until, minutes)
    others = await asyncio.gather(*(_page(index, shard, since) for shard in range(1, index.shards)))
    pages = (sample, *others)
    entries = tuple(entry for page in pages for entry in page.entries)
    return Finished(entries, since, more=any(page.continuation is not None for page in pages))


async def _sampled(index: TaskIndex, until: datetime, minutes: int) -> tuple[datetime, IndexPage]:
    since = until - minutes * MINUTE
    page = await _page(index, 0, since)
    for _ in range(_SAMPLES - 1):
        if page.continuation is None or not page.entries or minutes == 1:
            break
        read = (page.entries[-1].at - since) / MINUTE
        minutes = max(1, min(minutes - 1, int(read * _MARGIN)))
        since = until - minutes * MINUTE
        page = await _page(index, 0, since)
    return since, page


async def _page(index: TaskIndex, shard: int, since: datetime) -> IndexPage:
    return await index.page(Index.DONE, shard, since=since, most=MOST_PER_REQUEST)
