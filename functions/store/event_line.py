"""The line in which events for one task wait, and the writes whose outcome is not known yet."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from functions.pattern.events import StepStarted
from functions.pattern.folding import Answer, Told
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.store_ports import Stored

#: Seconds for which a write may stay on its way when an event's time is over, by the client's own limits.
_LONGEST_DOUBT = 90


@dataclass(eq=False, slots=True)
class Waiting:
    """An event that waits for its answer. Numbers grow in the order of arrival.

    One that `can_wait` is taken along by others, and one to be tried `alone` was in a fold that failed. One
    that is `overdue` is not tried again: it only waits to hear whether it was written.
    """

    number: int
    told: Told
    result: asyncio.Future[Answer | Refused]
    can_wait: bool
    alone: bool = False
    overdue: Exception | None = None

    def answer(self, answer: Answer | Refused) -> None:
        """Answer the event, unless its caller has given up."""
        if not self.result.done():
            self.result.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Answer the event by an error."""
        if not self.result.done():
            self.result.set_exception(error)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A transaction that was sent: it may still be written, as long as the task is at `version`.

    `record` and `writes` are what the task's rows then hold.
    """

    version: str
    record: TaskRecord
    writes: tuple[str, ...]
    events: tuple[Waiting, ...]
    answers: tuple[Answer, ...]

    def is_in(self, stored: Stored) -> bool:
        """Tell whether it was written: the row names only the latest writes, but each start names itself."""
        if self.writes[0] in stored.writes:
            return True
        started = {step.start_id for step in stored.record.steps}
        events = [event for answer in self.answers for event in answer.events]
        return any(isinstance(event, StepStarted) and event.start_id in started for event in events)

    def settle(self) -> None:
        """Answer its events: it was written."""
        for event, answer in zip(self.events, self.answers, strict=True):
            event.answer(answer)


class EventLine:
    """What one task's worker works on. Events whose callers have given up leave it by themselves.

    `base` is the record on which the next fold is made (None: it must be read). It was the newest one at a
    moment when the event of number `sure_up_to` was waiting already: only for events up to that one it
    counts that nothing changes. Rows that it `mends` are not as expected, though the task is at that version.
    """

    def __init__(self, task: TaskId, base: Stored | None) -> None:
        self.task = task
        self.base = base
        self.sure_up_to = -1
        self.mends = frozenset[str]()
        self._conflict: str | None = None
        self._blamed = frozenset[str]()
        self._conflicts = 0
        self._last = -1
        self._events: list[Waiting] = []
        self._in_doubt: list[Attempt] = []

    @property
    def last(self) -> int:
        """Give the number of the latest event."""
        return self._last

    @property
    def is_empty(self) -> bool:
        """Tell whether no event waits."""
        return not self._open()

    @property
    def has_work(self) -> bool:
        """Tell whether an event waits that must not wait."""
        return not all(event.can_wait for event in self._open())

    def join(self, told: Told, *, can_wait: bool) -> Waiting:
        """Put an event at the end of the line."""
        self._last += 1
        result: asyncio.Future[Answer | Refused] = asyncio.get_running_loop().create_future()
        event = Waiting(self._last, told, result, can_wait)
        self._events.append(event)
        return event

    def hurry(self) -> None:
        """Let no event wait for another to take it along."""
        for event in self._events:
            event.can_wait = False

    def expire(self, event: Waiting, error: Exception) -> None:
        """Let an event's time be over.

        While a write of it is on its way, with starts that follow, its caller has to hear what became of it:
        a start that stands on the record is the caller's to call.
        """
        if event.told.follow is not None and any(event in attempt.events for attempt in self._in_doubt):
            event.overdue = error
            asyncio.get_running_loop().call_later(_LONGEST_DOUBT, event.fail, error)
        else:
            event.fail(error)

    def batch(self) -> tuple[Waiting, ...]:
        """Give the events of the next fold: all, or the first when it has to be tried alone."""
        events = self._open()
        alone = next((number for number, event in enumerate(events) if event.alone), len(events))
        return tuple(events[: alone or 1])

    def sent(self, attempt: Attempt) -> None:
        """Keep in mind that a transaction is sent: from now on it may be written."""
        self._in_doubt.append(attempt)

    def committed(self, attempt: Attempt, base: Stored, last: int) -> None:
        """Go on from a written record, which was the newest after the event of number `last` had come."""
        self._in_doubt.clear()  # whatever was in doubt was for an older version
        self.base, self.sure_up_to, self.mends = base, last, frozenset()
        attempt.settle()

    def unchanged(self, events: Sequence[Waiting], answers: Sequence[Answer]) -> None:
        """Answer the events for which nothing changes; those that came too late for it need a read."""
        for event, answer in zip(events, answers, strict=True):
            if event.number <= self.sure_up_to:
                event.answer(answer)
            else:
                self.base = None

    def conflicted(self, version: str, rows: frozenset[str], sent: frozenset[str]) -> bool:
        """Go on from what is to be read: some of `rows` were not as expected with the task at `version`.

        Where they were spared already, or there were more conflicts than rows, as one has another name each
        time that holds a time, it can be any that was `sent`. Tell whether it is known that the task was at
        that version, and another row is spared now: then nobody else is to be waited for.
        """
        is_same = version == self._conflict
        known = self._blamed if is_same else frozenset[str]()
        self._conflicts = self._conflicts + 1 if is_same else 1
        is_in_vain = rows <= known or self._conflicts > len(sent)
        self._blamed = known | (sent if is_in_vain else rows)
        self.base, self._conflict = None, version
        return is_same and known < self._blamed and self._conflicts <= len(sent) + 1

    def failed(self, attempt: Attempt, error: Exception) -> None:
        """Go on from what is to be read: a transaction, which held these events, can't be written."""
        self.base = None
        self.isolate(attempt.events, error)

    def lost(self) -> None:
        """Go on from what is to be read: the state store failed, and what was sent may have been written."""
        self.base = None

    def found(self, stored: Stored, last: int) -> None:
        """Go on from a record that was read while the event of number `last` was waiting.

        An attempt is ours if its id is there. If it is not, it can be written only while nothing else was.
        When conflicts left the task as it is, other rows than the task's were not as expected.
        """
        for attempt in self._in_doubt:
            if attempt.is_in(stored):
                attempt.settle()
        self._in_doubt = [each for each in self._in_doubt if each.version == stored.version]
        for event in self._open():
            if event.overdue is not None:
                event.fail(event.overdue)
        self.base, self.sure_up_to = stored, last
        self.mends = self._blamed if self._conflict == stored.version else frozenset()

    def gone(self, last: int) -> None:
        """Refuse the events up to number `last`: the task was not found after they had come."""
        self._in_doubt.clear()
        for event in self._up_to(last):
            event.answer(Refused(RefusalReason.NO_SUCH_TASK))

    def fail(self, error: Exception, last: int) -> None:
        """Answer the events up to number `last` by an error."""
        for event in self._up_to(last):
            event.fail(error)

    @staticmethod
    def isolate(events: Sequence[Waiting], error: Exception) -> None:
        """Have the events of a fold that failed tried one by one: the one that fails alone gets the error."""
        if len(events) == 1:
            events[0].fail(error)
        for event in events:
            event.alone = True

    def _up_to(self, last: int) -> list[Waiting]:
        return [event for event in self._open() if event.number <= last]

    def _open(self) -> list[Waiting]:
        self._events = [event for event in self._events if not event.result.done()]
        return self._events
