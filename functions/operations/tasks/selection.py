"""All tasks that a filter selects, as of one time: counted, or taken a page after the other, each once.

A list goes by time over all shards, and can't show all of what is in no order of time. A selection goes
shard by shard in the order of the index's keys: what leaves the index meanwhile moves nothing, and what
enters it lies before the place that was come to, or is too new.
"""

from __future__ import annotations

import asyncio
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from functions.operations.tasks.listing import read_under_way
from functions.operations.tasks.query import Filter, ListQuery, Source, wrong_field
from functions.operations.tasks.wanted import CLOCK_SKEW, UNDER_WAY, Wanted, accepts
from functions.pattern.errors import UnreadableError
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.search_keys import search_key
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import IndexEntry, IndexPage

#: Tasks of one page, and requests that it takes at most: shards can be empty, and a filter can refuse much.
MOST_PER_PAGE = 50
_MOST_READS = 40

#: Rows that are counted at most, over all shards, and of one request (Table Storage's limit).
_MOST_COUNTED = 10_000
_MOST_PER_REQUEST = 1_000

type _Reading = Callable[..., Awaitable[IndexPage]]


class _Place(BaseModel):
    """Where a page begins: in which of the sources, in which shard, after what; callers get it as a text.

    It counts for the selection that it is `of` alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    of: int
    source: Annotated[int, Field(ge=0)] = 0
    shard: Annotated[int, Field(ge=0)] = 0
    after: str | None = None

    def text(self) -> str:
        return urlsafe_b64encode(self.model_dump_json(exclude_none=True).encode()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class SelectedPage:
    """Entries that may be selected, damaged rows, and where the next page begins (None: nowhere)."""

    entries: tuple[IndexEntry, ...]
    cursor: str | None
    unreadable: tuple[UnreadableError, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """How many entries may be selected; with `more`, at least so many."""

    count: int
    more: bool


class Selection:
    """What a filter selects as of `before`: ages are as of then, and what ended or came later is left out."""

    def __init__(self, ports: Ports, asked: Filter, before: datetime) -> None:
        """Raise `ProblemError` 422 for a time to come: what is acted on then would be selected again."""
        if before > ports.clock.now() + CLOCK_SKEW:
            raise wrong_field("before", "is still to come")
        query = ListQuery.model_validate(asked.model_dump())
        self._index = ports.index
        self._asked = asked
        self._before = before
        self._mark = zlib.crc32(f"{asked.model_dump_json()} {before.isoformat()}".encode())
        self._wanted = Wanted(query, before, None, query.sources[0])

    @property
    def is_exact(self) -> bool:
        """Tell whether the index tells all that is asked for; if not, some entries may not be meant."""
        asked, state = self._asked, self._asked.listed_state
        if self._wanted.source is not Source.TIME:
            return False
        needs_task = asked.step is not None or asked.error is not None
        return state is ProcessState.ERROR or (
            (asked.parked or state in {ProcessState.PROCESSED, ProcessState.COMPENSATED}) and not needs_task
        )

    def has(self, record: TaskRecord) -> bool:
        """Tell whether a task is selected: one of which another epoch has begun since then is not."""
        at = record.task.finished_at or record.order.submitted_at
        began_at = record.history[-1].ended_at if record.history else record.order.submitted_at
        return max(at, began_at) <= self._before and accepts(self._asked, record, self._before)

    async def page(self, cursor: str | None) -> SelectedPage:
        """Read some 50 entries from a place on; fewer, even none, while others follow.

        Raises `TransientError`, and `ProblemError` 422 for what is no cursor of this selection.
        """
        found: list[IndexEntry] = []
        damaged: list[UnreadableError] = []
        try:
            place: _Place | None = self._place(cursor)
            for _ in range(_MOST_READS):
                if place is None or len(found) >= MOST_PER_PAGE:
                    break
                page = await self._read(place, MOST_PER_PAGE - len(found))
                found += filter(self._wanted.may_take, page.entries)
                damaged += page.unreadable
                place = self._behind(place, page.continuation)
        except (ValueError, IndexError):
            raise wrong_field("cursor", "not a cursor of this selection") from None
        return SelectedPage(tuple(found), None if place is None else place.text(), tuple(damaged))

    async def count(self) -> Counted:
        """Count by the index alone: up to 10,000 rows, or one request a shard. Raises `TransientError`."""
        shards = range(self._index.shards)
        counts = await asyncio.gather(
            *(self._count(read, each) for read in self._readings for each in shards)
        )
        return Counted(sum(each.count for each in counts), any(each.more for each in counts))

    async def _count(self, read: _Reading, shard: int) -> Counted:
        count, after = 0, None
        for _ in range(max(1, _MOST_COUNTED // (_MOST_PER_REQUEST * self._index.shards))):
            page = await read(shard, after=after, most=_MOST_PER_REQUEST)
            count += sum(map(self._wanted.may_take, page.entries))
            after = page.continuation
            if after is None:
                break
        return Counted(count, after is not None)

    async def _read(self, place: _Place, most: int) -> IndexPage:
        if place.shard >= self._index.shards:
            raise IndexError(place.shard)
        return await self._readings[place.source](place.shard, after=place.after, most=most)

    def _place(self, cursor: str | None) -> _Place:
        """Read a place. Raises `ValueError`."""
        if cursor is None:
            return _Place(of=self._mark)
        place = _Place.model_validate_json(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if place.of != self._mark:
            raise ValueError(place.of)
        return place

    def _behind(self, place: _Place, continuation: str | None) -> _Place | None:
        if continuation is not None:
            return place.model_copy(update={"after": continuation})
        if place.shard + 1 < self._index.shards:
            return _Place(of=place.of, source=place.source, shard=place.shard + 1)
        is_last = place.source + 1 == len(self._readings)
        return None if is_last else _Place(of=place.of, source=place.source + 1)

    @property
    def _readings(self) -> list[_Reading]:
        """Give what reads a page of a shard, one for each source."""
        wanted, asked = self._wanted, self._asked
        since, until = wanted.bounds()
        ended: dict[str, Any] = {"since": since, "until": min(until, self._before + timedelta.resolution)}
        match wanted.source:
            case Source.TEXT:
                return [partial(self._index.found, search_key(asked.find or ""), **ended)]
            case Source.NAME:
                return [partial(self._index.named, asked.prefix or "")]
            case Source.TIME:
                return [
                    partial(read_under_way, self._index, each)
                    if each in UNDER_WAY
                    else partial(self._index.page, each, **ended)
                    for each in wanted.indexes
                ]
