"""The one writer of each task in this process: events wait in a line, and are folded into transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Sequence
from contextvars import Context
from datetime import datetime
from functools import partial
from random import Random, SystemRandom
from typing import Protocol

from functions.pattern.errors import IllegalTransitionError, TransientError
from functions.pattern.events import Event
from functions.pattern.folding import NO_RULES, Answer, Rules, Told, fold
from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.refusals import Refused
from functions.pattern.store_ports import Stored
from functions.store.event_line import Attempt, EventLine, Waiting
from functions.store.remembered import RememberedTasks, newest
from functions.store.task_rows import update, written
from functions.store.transactions import Committed, Conflicted, Transaction

_log = logging.getLogger(__name__)

#: Seconds for which an event without a deadline is tried, and which every event is granted beyond it.
_PATIENCE = 10
_GRACE = 1
#: Seconds for which a note waits for an event that takes it along, where one may come.
_NOTE_WAITS = 2
#: Seconds between the moments at which notes that waited are written, those of all tasks together.
_NOTES_EVERY = 0.5
#: Seconds before another try after a conflict or fault: at random, up to a bound that grows.
_FIRST_WAIT = 0.005
_LONGEST_WAIT = 1
_MOST_DOUBLINGS = 8
#: Turns of the event loop before a fold, in which what comes at the same moment joins it.
_TURNS = 1
#: Characters of a write's id: only few writes of one task are told apart.
_ID_CHARACTERS = 8


class Rows(Protocol):
    """The rows of tasks. Its methods raise `TransientError`: then nobody knows whether it was done."""

    async def commit(self, transaction: Transaction) -> Committed | Conflicted:
        """Commit a transaction whole or not at all. Raises `UnwritableError`."""

    async def read(self, task: TaskId) -> Stored | None:
        """Read one task as it was at one moment, or None when there is no such task."""


class TaskWriter:
    """Writes what tasks are told. A line exists only as long as somebody waits in it."""

    def __init__(
        self,
        rows: Rows,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        rules: Rules = NO_RULES,
        random: Random | None = None,
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._new_id = new_id
        self._rules = rules
        self._random = random or SystemRandom()
        self._remembered = RememberedTasks()
        self._lines: dict[TaskId, EventLine] = {}
        self._workers: dict[TaskId, asyncio.Task[None]] = {}

    def new_write(self) -> str:
        """Make an id by which a write is recognised."""
        return self._new_id()[:_ID_CHARACTERS]

    def remembered(self, task: TaskId) -> Stored | None:
        """Give the record of a task as this process knows it; it may be outdated."""
        line = self._lines.get(task)
        return (line and line.base) or self._remembered.find(task)

    def remember(self, stored: Stored) -> None:
        """Remember a record that was written or read elsewhere, unless the task is being written here."""
        if stored.record.order.task not in self._lines:
            self._remembered.keep(stored)

    async def tell(
        self, task: TaskId, told: Told, *, until: datetime | None = None, read: Stored | None = None
    ) -> Answer | Refused:
        """Have a task take an event; `read` is its record as the caller has just read it.

        Raises `TransientError` when that was impossible, or is uncertain, `until` that time (UTC),
        `UnwritableError`, and `IllegalTransitionError`.
        """
        left = _PATIENCE if until is None else (until - self._clock.now()).total_seconds()
        event = self._join(task, told, max(0.0, left), read=read)
        self._work(task)
        answer = await event.result
        fault = answer.fault if isinstance(answer, Answer) else answer
        if isinstance(fault, IllegalTransitionError):
            raise fault
        return fault or answer

    def note(self, task: TaskId, event: Event) -> None:
        """Have a task take an event along with its next one, or after a moment; it may be lost."""
        remembered = self.remembered(task)
        noted = self._join(task, Told(event), _NOTE_WAITS + _PATIENCE, can_wait=remembered is not None)
        noted.result.add_done_callback(lambda result: _log_lost(task, event, result))
        if remembered is None:
            self._work(task)
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + (_NOTE_WAITS if remembered.record.task.finished_at is None else 0)
        loop.call_at(until - until % _NOTES_EVERY + _NOTES_EVERY, self._hurry, task)

    async def settle(self) -> None:
        """Have all notes written, and wait until nothing is left to write."""
        while self._lines:
            for task in [*self._lines]:
                self._hurry(task)
            await asyncio.wait(self._workers.values())

    def _join(
        self, task: TaskId, told: Told, seconds: float, *, read: Stored | None = None, can_wait: bool = False
    ) -> Waiting:
        if task not in self._lines:
            self._lines[task] = EventLine(task, newest(self._remembered.find(task), read))
        event = self._lines[task].join(told, can_wait=can_wait)
        error = TransientError(f"task {task}: {type(told.event).__name__} could not be recorded in time")
        expire = self._lines[task].expire
        timer = asyncio.get_running_loop().call_later(seconds + _GRACE, expire, event, error)
        event.result.add_done_callback(partial(_cancel, timer))
        return event

    def _hurry(self, task: TaskId) -> None:
        if task in self._lines:
            self._lines[task].hurry()
            self._work(task)

    def _work(self, task: TaskId) -> None:
        """Start the task's worker, outside of the caller's context and trace: it serves others as well."""
        if task not in self._workers:
            self._workers[task] = asyncio.create_task(self._run(self._lines[task]), context=Context())

    async def _run(self, line: EventLine) -> None:
        tries = 0
        try:
            while line.has_work:
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                tries = 0 if await self._advance(line) else tries + 1
                if tries:
                    bound = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(tries, _MOST_DOUBLINGS))
                    await asyncio.sleep(bound * self._random.random())
        except Exception:  # noqa: BLE001 - answered below
            _log.exception("task %s: its writer failed", line.task)
        finally:
            if line.has_work:  # a defect, or the end of the process: nobody may wait for ever
                line.fail(TransientError(f"task {line.task}: its writer has ended"), line.last)
            self._leave(line)

    def _leave(self, line: EventLine) -> None:
        del self._workers[line.task]
        if line.base is None:
            self._remembered.forget(line.task)
        else:
            self._remembered.keep(line.base)
        if line.is_empty:
            del self._lines[line.task]

    async def _advance(self, line: EventLine) -> bool:
        """Read if need be, fold and write; tell whether that succeeded."""
        try:
            if line.base is None:
                await self._read(line)
            return line.base is None or await self._write(line, line.base)
        except TransientError as fault:
            _log.debug("task %s: tried again, as the state store failed (%s)", line.task, fault)
            line.lost()
            return False

    async def _read(self, line: EventLine) -> None:
        last = line.last
        try:
            stored = await self._rows.read(line.task)
        except TransientError:
            raise
        except Exception as error:  # noqa: BLE001 - damaged rows concern this task alone
            line.fail(error, last)
            return
        if stored is None:
            line.gone(last)
        else:
            line.found(stored, last)

    async def _write(self, line: EventLine, base: Stored) -> bool:
        events, last = line.batch(), line.last
        try:
            told = [event.told for event in events]
            folded = fold(base.record, told, self._clock.now(), self._rules)
            if not folded.changes:
                line.unchanged(events, folded.answers)
                return True
            attempt, transaction = self._attempt(base, events, folded.answers, mends=line.mends)
        except Exception as error:  # noqa: BLE001 - whatever one event does, the others go on
            line.isolate(events, error)
            return True
        line.sent(attempt)
        try:
            result = await self._rows.commit(transaction)
        except TransientError:
            raise
        except Exception as error:  # noqa: BLE001 - as above; it may be an `UnwritableError`
            line.failed(attempt, error)
            return True
        if isinstance(result, Conflicted):
            return line.conflicted(base.version, result.rows, transaction.rows)
        line.committed(attempt, Stored(attempt.record, result.etag, attempt.writes), last)
        return True

    def _attempt(
        self, base: Stored, events: Sequence[Waiting], answers: Sequence[Answer], *, mends: Container[str]
    ) -> tuple[Attempt, Transaction]:
        """Make the transaction of as many events as fit; one alone always goes, with what follows from it."""
        write_id = self.new_write()
        fewest = 1 + next(number for number, answer in enumerate(answers) if answer.changes)
        count = len(answers)
        while True:
            changes = [change for answer in answers[:count] for change in answer.changes]
            transaction = update(base, changes, write_id, mends=mends)
            if count == fewest or transaction.share <= 1:
                break
            count = max(fewest, count // 2)
        attempt = Attempt(
            writes=written(base, write_id),
            version=base.version,
            record=changes[-1].after,
            events=tuple(events[:count]),
            answers=tuple(answers[:count]),
        )
        return attempt, transaction


def _cancel(timer: asyncio.TimerHandle, _: object) -> None:
    timer.cancel()


def _log_lost(task: TaskId, event: Event, result: asyncio.Future[Answer | Refused]) -> None:
    if result.cancelled():
        return
    error = result.exception()
    outcome = result.result() if error is None else error
    fault = outcome.fault if isinstance(outcome, Answer) else outcome
    if fault is not None:
        _log.warning("task %s: %s is not recorded (%s)", task, type(event).__name__, fault)
