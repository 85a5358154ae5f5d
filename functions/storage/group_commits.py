"""Group commit: transactions of different tasks of one shard that wait at the same moment are sent as one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass

from functions.storage.table_contract import (
    MOST_BODY_BYTES,
    MOST_OPERATIONS,
    RefusedChanges,
    RowChange,
    Table,
    UnwritableRowsError,
)

#: Bytes of a group: building and parsing a larger body would block the event loop.
_MOST_GROUP_BYTES = 1024 * 1024
#: Groups of one shard that are under way at the same time. Meanwhile the next one grows.
_AT_ONCE = 2
#: Seconds for which changes without a waiting caller wait for a group that they can join.
_LATER_SECONDS = 0.5
#: Refusals after which the transactions of a group are sent one by one.
_MOST_REFUSALS = 3


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Nothing was written, as the row `key` was not as expected, maybe by the sender's own earlier write."""

    key: str | None


#: The ETag of the first row of a transaction that is written, or why it is not.
type CommitResult = str | Conflicted


def settle[ResultT](future: asyncio.Future[ResultT], result: ResultT | Exception) -> None:
    """Return a result or raise an error at the caller that waits, unless it was cancelled."""
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)


@dataclass(eq=False, slots=True)
class _Pending:
    """A transaction that waits for its result. `size` is in bytes."""

    task: str
    changes: Sequence[RowChange]
    size: int
    result: asyncio.Future[CommitResult]


class ShardCommits:
    """Commits the transactions of one shard, each one as a whole or not at all.

    A task has at most one transaction under way: its transactions are sent in their order. A group that is
    not full waits `pause()` seconds for further ones: large groups cost a busy process less.
    """

    def __init__(self, table: Table, partition: str, pause: Callable[[], float] = lambda: 0) -> None:
        self._table, self._partition, self._pause = table, partition, pause
        self._waiting, self._later = deque[_Pending](), deque[_Pending]()
        self._under_way: dict[str, _Pending] = {}
        self._groups, self._is_collecting = 0, False
        self._flushes = set[asyncio.Task[None]]()

    async def commit(
        self, task: str, changes: Sequence[RowChange], *, is_later: bool = False
    ) -> CommitResult:
        """Commit the changes of one task, with `is_later` together with the next group if it comes soon.

        Raises `TransientStorageError`, and `UnwritableRowsError` for changes that the service always rejects.
        """
        size = sum(map(size_of, changes))
        if len(changes) > MOST_OPERATIONS or size > MOST_BODY_BYTES:
            raise UnwritableRowsError(f"task {task}: {len(changes)} rows of {size} bytes do not fit")
        pending = _Pending(task, changes, size, asyncio.get_running_loop().create_future())
        if is_later:
            if not self._later:
                asyncio.get_running_loop().call_later(_LATER_SECONDS, self._begin_later)
            self._later.append(pending)
        else:
            self._waiting.append(pending)
            self._begin()
        return await pending.result

    def _begin_later(self) -> None:
        self._waiting += self._later
        self._later.clear()
        self._begin()

    def _begin(self) -> None:
        is_free = self._groups < _AT_ONCE and not self._is_collecting
        if is_free and any(pending.task not in self._under_way for pending in self._waiting):
            self._is_collecting = True
            flush = asyncio.create_task(self._flush(), context=Context())  # it serves several senders
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)

    async def _flush(self) -> None:
        try:
            is_full = sum(len(pending.changes) for pending in self._waiting) >= MOST_OPERATIONS
            await asyncio.sleep(0 if is_full else self._pause())  # those of the same moment join at least
        finally:
            self._is_collecting = False
        group = self._take()
        self._under_way.update((pending.task, pending) for pending in group)
        self._groups += 1
        self._begin()
        try:
            await self._send(group)
        except Exception as error:  # noqa: BLE001 - returned to the senders
            for pending in group:
                self._end(pending, error)
        finally:
            for pending in group:
                pending.result.cancel()  # without effect on a result; the process is about to end
                self._release(pending)
            self._groups -= 1
        self._begin()

    def _end(self, pending: _Pending, result: CommitResult | Exception) -> None:
        """Return the result of a transaction, and begin the next one of its task."""
        settle(pending.result, result)
        self._release(pending)
        self._begin()

    def _release(self, pending: _Pending) -> None:
        if self._under_way.get(pending.task) is pending:
            del self._under_way[pending.task]

    def _take(self) -> list[_Pending]:
        """Take the waiting transactions that fit into one, in their order.

        A transaction waits while an earlier one of its task waits or is under way.
        """
        group: list[_Pending] = []
        tasks = {*self._under_way}
        count = size = 0
        for queue in (self._waiting, self._later):
            passed: list[_Pending] = []
            while queue:
                pending = queue.popleft()
                if pending.task in tasks:
                    passed.append(pending)
                    continue
                count += len(pending.changes)
                size += pending.size
                if group and (count > MOST_OPERATIONS or size > _MOST_GROUP_BYTES):
                    passed.append(pending)
                    break
                tasks.add(pending.task)
                group.append(pending)
            queue.extendleft(reversed(passed))
        return group

    async def _send(self, group: Sequence[_Pending]) -> None:
        """Send a group. A conflict is that of the named row's task, and the others are sent again.

        After several refusals, or one without a named row, each transaction is sent alone.
        """
        for _ in range(_MOST_REFUSALS):
            ended = await self._attempt(group) if group else []
            group = [each for each in group if each not in ended]
            if not ended:
                break
        await asyncio.gather(*map(self._send_alone, group))

    async def _send_alone(self, pending: _Pending) -> None:
        try:
            await self._attempt([pending])
        except Exception as error:  # noqa: BLE001 - returned to the sender
            self._end(pending, error)

    async def _attempt(self, group: Sequence[_Pending]) -> Sequence[_Pending]:
        """Send a group as one transaction, and return the members that have a result."""
        changes = [(each, change) for each in group for change in each.changes]
        answer = await self._table.send(self._partition, [change for _, change in changes])
        if not isinstance(answer, RefusedChanges):
            first = 0
            for each in group:
                self._end(each, answer[first])
                first += len(each.changes)
            return group
        if answer.is_conflict and answer.index is not None and answer.index < len(changes):
            each, change = changes[answer.index]
            self._end(each, Conflicted(change.key))
            return [each]
        if len(group) > 1:
            return []
        reason = f"task {group[0].task}: HTTP {answer.status} {answer.text}"
        self._end(group[0], Conflicted(None) if answer.is_conflict else UnwritableRowsError(reason))
        return group


def fits(changes: Sequence[RowChange]) -> bool:
    """Return whether one transaction can hold the changes."""
    return len(changes) <= MOST_OPERATIONS and sum(map(size_of, changes)) <= MOST_BODY_BYTES


def size_of(change: RowChange) -> int:
    """Return an upper bound of the bytes that a change takes in a request, as JSON in ASCII."""
    values = (change.row or {}).values()
    size = 1024 + 4 * len(change.key) + 40 * len(values)
    for text in values:
        if isinstance(text, str):
            size += 2 * len(text) if text.isascii() else 3 * len(text.encode("utf-16", "surrogatepass"))
    return size
