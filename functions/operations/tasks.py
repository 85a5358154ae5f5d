"""Finds tasks for operators: one by its id, or those of a state out of the indexes; never all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import repeat

from functions.http.problems import ProblemError
from functions.operations.cursor import Cursor, CursorError
from functions.pattern.identity import TaskId
from functions.pattern.ports import Index, IndexEntry, StateStore, Stored, TaskIndex
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState

MOST_PER_PAGE = 50

#: Index requests for one page; many shards can be empty, or hold other states only.
_MOST_REQUESTS = 64

_INDEX = {
    ProcessState.PENDING: Index.DUE,
    ProcessState.PROCESSING: Index.DUE,
    ProcessState.ERROR: Index.ERROR,
    ProcessState.PROCESSED: Index.DONE,
    ProcessState.COMPENSATED: Index.DONE,
}


@dataclass(frozen=True, slots=True)
class Listing:
    """Some tasks, and where the list goes on (None: nowhere)."""

    records: tuple[TaskRecord, ...]
    next: Cursor | None


class Tasks:
    """Finds tasks. Their lists come in pages, shard by shard and in each by time, the oldest first.

    Index entries are hints: each task is read before it is shown. So a page can have fewer tasks than
    fit, even none, while the list goes on.
    """

    def __init__(self, *, store: StateStore, index: TaskIndex) -> None:
        self._store = store
        self._index = index

    @property
    def shards(self) -> int:
        """Tell how many shards a list goes through."""
        return self._index.shards

    async def find(self, task: TaskId) -> Stored:
        """Read one task. Raises `ProblemError` 404 when there is none, and `TransientError`."""
        stored = await self._store.load(task)
        if stored is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "No task is recorded under this id.")
        return stored

    async def page(self, cursor: Cursor) -> Listing:
        """Read the page that begins at `cursor`: at most 50 tasks.

        Raises `CursorError` when the index does not know the cursor's place, and `TransientError`.
        """
        entries: list[IndexEntry] = []
        following: Cursor | None = cursor
        for _ in repeat(None, _MOST_REQUESTS):
            if following is None or len(entries) == MOST_PER_PAGE:
                break
            found, following = await self._entries(following, MOST_PER_PAGE - len(entries))
            entries += found
        return Listing(await self._records(entries, cursor.state), following)

    async def _entries(self, cursor: Cursor, most: int) -> tuple[list[IndexEntry], Cursor | None]:
        index = _INDEX[cursor.state]
        try:
            page = await self._index.page(index, cursor.shard, after=cursor.after, most=most)
        except ValueError:
            raise CursorError from None
        # An entry of `!due` may be older than the state of its task; the others are of the last moment.
        found = [each for each in page.entries if index is Index.DUE or each.state is cursor.state]
        return found, self._following(cursor, page.continuation)

    def _following(self, cursor: Cursor, continuation: str | None) -> Cursor | None:
        if continuation is not None:
            return cursor.model_copy(update={"after": continuation})
        if cursor.shard + 1 < self._index.shards:
            return Cursor(state=cursor.state, shard=cursor.shard + 1)
        return None

    async def _records(self, entries: Sequence[IndexEntry], state: ProcessState) -> tuple[TaskRecord, ...]:
        read = await asyncio.gather(*(self._store.load(entry.task) for entry in entries))
        records = (stored.record for stored in read if stored is not None)
        return tuple(record for record in records if record.task.process_state is state)
