"""The tasks in the state store: admission, reads, and changes by events.

Each process has an inbox for each task. Events of the same moment are written in one transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextvars import Context
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import NamedTuple

from functions.core.record import Message, RuleSettings, TaskRecord
from functions.core.rules import Applied, Plan, fold
from functions.core.task_events import Event, StepStarted
from functions.storage.group_commits import CommitResult, Conflicted, ShardCommits, fits
from functions.storage.index_pages import every_page
from functions.storage.record_rows import StoredTask, admission, difference, stored_task
from functions.storage.row_keys import message_key, order_key, record_of, shard_name, shard_of, task_key
from functions.storage.table_contract import (
    MOST_OPERATIONS,
    CorruptRowError,
    ReservedError,
    RowChange,
    StorageError,
    Table,
    TransientStorageError,
    UnwritableRowsError,
)
from functions.storage.task_inbox import PendingEvent, RecordCache, TaskInbox, Transition, WriteAttempt

_log = logging.getLogger(__name__)

#: Seconds of all tries of an event.
_TRY_SECONDS = 20
#: Reads of a record of several pages until the task row stays the same.
_MOST_READS = 10

#: Sends the messages of a change, requests the run or the timer that follows, and returns the messages that
#: need no row any more. It raises nothing, as the outbox and the due index are the backup.
type Announce = Callable[[Transition], Awaitable[Sequence[Message]]]


class Recorded(NamedTuple):
    """The result of an event that was applied, and the transition that is to be announced."""

    applied: Applied
    transition: Transition | None

    @property
    def record(self) -> TaskRecord:
        """Return the record after the event."""
        return self.applied.record


class TaskStorage:
    """Reads and changes tasks. Its methods raise `TransientStorageError` and `CorruptRowError`."""

    def __init__(
        self,
        table: Table,
        *,
        shards: int,
        settings: RuleSettings,
        now: Callable[[], datetime],
        new_id: Callable[[], str],
        announce: Announce,
        random: Random | None = None,
    ) -> None:
        self.table, self.shards = table, shards
        self._settings = settings
        self._now = now
        #: Makes an id without spaces by which the sender of a transaction recognises it.
        self.new_write = new_id
        self._announce = announce
        self._random = random or Random()  # noqa: S311 - it spreads retries
        names = map(shard_name, range(shards))
        self._commits = {name: ShardCommits(table, name, self._pause) for name in names}
        self._cache = RecordCache()
        self._inboxes: dict[str, TaskInbox] = {}
        self._forgetting = set[asyncio.Task[None]]()

    async def admit(
        self, record: TaskRecord, search_keys: Collection[str] = (), *, reserved: str | None = None
    ) -> tuple[TaskRecord, bool]:
        """Insert a new task, and return its record and whether it is new. Raises `UnwritableRowsError`.

        The record of a task that was there before may differ. Operators find the task by its `search_keys`.
        Raises `ReservedError` if its id is reserved, unless `reserved` is the ETag of the reservation.
        """
        task, write = record.order.task, self.new_write()
        changes, stored = admission(record, write, search_keys, reserved)
        result = await self.commit(task, changes)
        recorded = await self.read(task) if isinstance(result, Conflicted) else replace(stored, etag=result)
        if recorded is None:
            raise ReservedError(f"task {task}: its id is reserved, or it was deleted at this moment")
        if task not in self._inboxes:
            self._cache.keep(recorded)
        is_new = write in recorded.writes
        if is_new:
            self.forget_soon(await self._announce(Transition(None, record)))
        return recorded.record, is_new

    async def load(self, task: str) -> TaskRecord | None:
        """Return the newest record of a task, None if there is no task."""
        stored = await self.read(task)
        return None if stored is None else stored.record

    async def cached(self, task: str) -> TaskRecord | None:
        """Return a record that may be outdated, and read it only if this process has none."""
        stored = self._cache.find(task)
        if stored is None:
            stored = await self.read(task)
            if stored is not None and task not in self._inboxes:
                self._cache.keep(stored)
        return None if stored is None else stored.record

    async def change(
        self, task: str, event: Event | None, *, plan: Plan | None = None, until: datetime | None = None
    ) -> Applied:
        """Apply an event and the plan of a run, and announce what follows. It is tried `until` then, or 20 s.

        Raises `NoSuchTaskError`, and `UnwritableRowsError` if the rows of this task are too large. After a
        `TransientStorageError`, the event may be recorded.
        """
        recorded = await self.record(task, event, plan=plan, until=until)
        await self.announce(recorded)
        return recorded.applied

    async def record(
        self, task: str, event: Event | None, *, plan: Plan | None = None, until: datetime | None = None
    ) -> Recorded:
        """Apply an event as `change` does, without the announcement."""
        inbox = self._inboxes.get(task)
        if inbox is None:
            inbox = self._inboxes[task] = TaskInbox(task, self._cache.find(task))
            # It has no context of a caller, because it serves several callers.
            inbox.worker = asyncio.create_task(self._work(inbox), context=Context())
        seconds = _TRY_SECONDS if until is None else (until - self._now()).total_seconds()
        pending = inbox.add(event, plan, seconds)
        return Recorded(*await pending.result)

    async def announce(self, recorded: Recorded) -> None:
        """Announce what follows from a change. It raises nothing."""
        if recorded.transition is not None:
            self.forget_soon(await self._announce(recorded.transition))

    def forget_soon(self, messages: Sequence[Message]) -> None:
        """Delete the outbox rows of messages of one task in the background."""
        if messages:
            forgetting = asyncio.create_task(self.forget(messages), context=Context())
            self._forgetting.add(forgetting)
            forgetting.add_done_callback(self._forgetting.discard)

    async def forget(self, messages: Sequence[Message]) -> None:
        """Delete the outbox rows of sent messages of one task soon. If that fails, they are sent again."""
        changes = [RowChange("delete", message_key(message)) for message in messages]
        try:
            result = await self.commit(messages[0].task, changes, is_later=True)
            if isinstance(result, Conflicted) and len(changes) > 1:
                for message in messages:
                    await self.forget([message])
        except StorageError as error:
            _log.debug("task %s: %s outbox rows are not deleted: %s", messages[0].task, len(messages), error)

    async def move_index(self, stored: StoredTask) -> None:
        """Move the index row of a task that is due later to that time."""
        task = stored.record.order.task
        changes, moved = difference(stored, stored.record, self.new_write(), moves_index=True)
        if moved.index != stored.index and task not in self._inboxes:
            self._cache.drop(task)
            await self.commit(task, changes)

    # Below the events: for the index, its repair, and retention

    async def commit(
        self, task: str, changes: Sequence[RowChange], *, is_later: bool = False
    ) -> CommitResult:
        """Write changes of a task, with `is_later` within half a second. Raises `UnwritableRowsError`."""
        return await self._commits[shard_of(task, self.shards)].commit(task, changes, is_later=is_later)

    def _pause(self) -> float:
        """Return the seconds for which a group waits: none for up to three tasks, for a low latency."""
        return min(0.03, 0.0003 * max(0, len(self._inboxes) - 3))

    async def read(self, task: str) -> StoredTask | None:
        """Return a task as it was at one moment.

        Several pages are consistent if the task row, the last one, is as at the end of the previous read.
        """
        partition, etag = shard_of(task, self.shards), None
        for _ in range(_MOST_READS):
            pages = [each async for each in every_page(self.table, partition, record_of(task))]
            rows = [row for page in pages for row in page.rows]
            previous, tags = etag, {row["RowKey"]: row["odata.etag"] for row in rows}
            etag = tags.get(task_key(task), tags.get(order_key(task)))
            if len(pages) == 1 or etag in {None, previous}:
                return stored_task(rows, task)
        raise TransientStorageError(f"task {task}: it changed during each of {_MOST_READS} reads")

    # The writer of one task

    async def _work(self, inbox: TaskInbox) -> None:
        """Apply the events of an inbox until it is empty."""
        tries = 0
        ended: Exception = TransientStorageError(f"task {inbox.task}: the process ends")
        try:
            while inbox.waiting():
                await asyncio.sleep(0)  # events of the same moment join the transaction
                try:
                    tries = 0 if await self._advance(inbox) else tries + 1
                except TransientStorageError as fault:
                    _log.debug("task %s: retrying: %s", inbox.task, fault)
                    inbox.base, tries = None, tries + 1
                if tries:
                    bound = min(1.0, 0.01 * 2 ** min(tries, 9))
                    await asyncio.sleep(bound * self._random.random())
        except Exception as error:  # noqa: BLE001 - raised at the callers
            _log.exception("task %s: its writer failed", inbox.task)
            ended = error
        finally:
            inbox.fail(ended, inbox.last)
            del self._inboxes[inbox.task]
            if inbox.base is None:
                self._cache.drop(inbox.task)
            else:
                self._cache.keep(inbox.base)

    async def _advance(self, inbox: TaskInbox) -> bool:
        """Read if necessary, apply the events and write; return whether the next try needs no pause."""
        if inbox.base is None:
            last = inbox.last
            try:
                stored = await self.read(inbox.task)
            except CorruptRowError as error:
                inbox.fail(error, last)
            else:
                inbox.found(stored, last)
        events = inbox.batch()
        return not events or inbox.base is None or await self._write(inbox, inbox.base, events)

    async def _write(self, inbox: TaskInbox, base: StoredTask, events: list[PendingEvent]) -> bool:
        last, write = inbox.last, self.new_write()
        try:
            answers, changes, stored = self._fold(base, events, write, inbox.missing)
        except Exception as error:  # noqa: BLE001 - the error of one event concerns no other event
            inbox.isolate(events, error)
            return True
        events, after = events[: len(answers)], answers[-1].record
        if after is base.record:
            inbox.unchanged(events, answers)
            return True
        attempt = WriteAttempt(write, base, events, answers)
        inbox.in_doubt.append(attempt)
        try:
            result = await self.commit(inbox.task, changes)
        except UnwritableRowsError as error:
            inbox.base = None
            inbox.isolate(events, error)
            return True
        if isinstance(result, Conflicted):
            deleted = frozenset(each.key for each in changes if each.kind == "delete")
            named = deleted if result.key is None else frozenset({result.key}) & deleted
            inbox.conflicted(base.etag, named)
            return False
        inbox.committed(attempt, replace(stored, etag=result), last)
        return True

    def _fold(
        self, base: StoredTask, events: Sequence[PendingEvent], write: str, missing: Collection[str]
    ) -> tuple[list[Applied], list[RowChange], StoredTask]:
        """Apply as many events as fit into one transaction, and of one event a part of its plan if necessary.

        The change of an event that does not fit at all is returned as well; its commit raises the error.
        """
        count, most, now = len(events), MOST_OPERATIONS, self._now()
        while True:
            answers: list[Applied] = []
            record = base.record
            for each in events[:count]:
                plan = None if each.plan is None else _limited(each.plan, most)
                answers.append(fold(record, each.event, plan, now, self._settings))
                record = answers[-1].record
            if record is base.record:
                return answers, [], base
            changes, stored = difference(base, record, write, missing=missing)
            if fits(changes) or not most:
                return answers, changes, stored
            if count > 1:
                count //= 2
            else:
                most //= 2


def _limited(plan: Plan, most: int) -> Plan:
    """Return a plan that starts at most `most` steps in all. A run continues only after a start."""
    left = iter(range(most))
    return lambda record, now: [
        event
        for event in plan(record, now)
        if not isinstance(event, StepStarted) or next(left, None) is not None
    ]
