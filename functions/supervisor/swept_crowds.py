"""Late tasks of one sweep: those that are late together get more time, or their turn, at a bounded rate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime

from functions.pattern.crowds import Behind, CrowdCause, Signs, behind, is_long, suspected
from functions.pattern.decisions import in_question
from functions.pattern.easing import may_be_extended, more_time, turn
from functions.pattern.epochs import is_exhausted
from functions.pattern.errors import TransientError
from functions.pattern.events import Eased, Extended, GivenUp, Judgement, Parked, Recovered
from functions.pattern.known_crowds import Crowd
from functions.pattern.messages import requests_queue
from functions.pattern.ports import Ports
from functions.pattern.ramp import is_reached
from functions.pattern.records import TaskRecord
from functions.pattern.shared_rows import Occasion
from functions.pattern.store_ports import Stored
from functions.pattern.supervision import SupervisionPolicy

#: Tasks that may try, in one sweep, what blocks a crowd.
_PROBES = 5


@dataclass(frozen=True, slots=True)
class Late:
    """A task as it was read, and what is to become of it; `in_crowd` is why it is late with many."""

    stored: Stored
    event: Judgement | Parked | Eased
    in_crowd: CrowdCause | None = None


@dataclass(slots=True)
class _Line:
    """Late tasks behind the same: as long as they may be few, they are held back until the sweep's end.

    Those of a crowd of before are its last ones, unless it `lasts`: then something still says why.
    """

    held: list[tuple[Late, Behind]] = field(default_factory=list)
    count: int = 0
    probes: int = 0
    extended: int = 0
    few: Crowd | None = None
    crowd: Crowd | None = None
    is_long: bool | None = None
    lasts: bool = False
    before: Crowd | None = None

    def has_met(self, record: TaskRecord, now: datetime) -> bool:
        """Tell whether sweeps of before have found this task there."""
        return self.before is not None and self.before.has_met(record, now)


class SweptCrowds:
    """The late tasks of one sweep, grouped by the cause of the delay."""

    def __init__(
        self,
        ports: Ports,
        policy: SupervisionPolicy,
        known: tuple[Crowd, ...],
        turns: int,
    ) -> None:
        self._ports = ports
        self._policy = policy
        self._turns = turns
        self._given = 0
        self._lines: dict[str, _Line] = {}
        self._reading = asyncio.Lock()
        self._signs: Signs | TransientError | None = None
        #: What was known before it.
        self.known = known

    async def sort_in(self, late: Late) -> Late | None:
        """Give what is to become of a task, or None: then it is held back until `rest` gives it."""
        record, now = late.stored.record, self._ports.clock.now()
        if not self._is_eased(late, record):
            return late
        found = behind(record, now, await self._known_signs()) or suspected(record, now)
        if found is None:
            return late
        line = self._line(found.name)
        line.count += 1
        few = line.few or _new_crowd(found, _late_since(record), now)
        was_met = line.has_met(record, now)
        line.few = few.with_task(
            _late_since(record), None, blocked=found.blocked, had_turn=False, was_met=was_met
        )
        if not await self._is_crowd(line, found, record):
            if line.is_long is False:  # many, and nothing explains them: as many records would be kept
                return self._alone(late, found, now)
            line.held.append((late, found))
            return None
        return self._eased(line, late, found, now)

    def rest(self) -> list[Late]:
        """Give what was held back: of those that were few after all, as was judged."""
        now, given = self._ports.clock.now(), list[Late]()
        for line in self._lines.values():
            for late, found in line.held:
                if line.crowd is None:
                    given.append(self._alone(late, found, now))
                else:
                    given.append(self._eased(line, late, found, now))
            line.held.clear()
        return given

    def found(self) -> list[Crowd]:
        """Give the crowds of this sweep."""
        return [line.crowd for line in self._lines.values() if line.crowd is not None]

    def counted(self) -> list[Crowd]:
        """Give all that something explains, few or many; a queue is no reason unless it was found long."""
        found = [line.crowd or line.few for line in self._lines.values()]
        return [each for each in found if each and not self._is_suspected(each)]

    def _is_suspected(self, each: Crowd) -> bool:
        return each.cause is CrowdCause.QUEUE_LONG and not self._lines[each.behind].lasts

    def _line(self, name: str) -> _Line:
        if name not in self._lines:
            before = (each for each in self.known if each.behind == name)
            self._lines[name] = _Line(before=next(before, None))
        return self._lines[name]

    def _is_eased(self, late: Late, record: TaskRecord) -> bool:
        is_late = isinstance(late.event, Recovered | GivenUp) and in_question(record) is None
        return is_late and may_be_extended(record, self._policy)

    def _alone(self, late: Late, found: Behind, now: datetime) -> Late:
        """Have one of few go on uncounted if it was extended as one of many; the next time, it counts."""
        record = late.stored.record
        if not record.task.is_extended:
            return late
        return Late(late.stored, turn(record, found, now, self._policy, in_crowd=False))

    def _eased(self, line: _Line, late: Late, found: Behind, now: datetime) -> Late:
        """Give a task of a crowd its turn, if it is not too many's already, or more time."""
        record = late.stored.record
        had_turn = self._has_turn(line, found)
        if had_turn:
            event = turn(record, found, now, self._policy, in_crowd=True, before=self._given)
            self._given += 1
        else:
            line.extended += 1
            place = None if found.blocked else line.extended
            event = more_time(record, found, now, self._policy, place=place)
        crowd = line.crowd or _new_crowd(found, _late_since(record), now)
        until = event.until if isinstance(event, Extended) else None
        line.crowd = crowd.with_task(
            _late_since(record),
            until,
            blocked=found.blocked,
            had_turn=had_turn,
            was_met=line.has_met(record, now),
        )
        return Late(late.stored, event, found.cause)

    def _has_turn(self, line: _Line, found: Behind) -> bool:
        if self._turns <= 0 or (found.blocked and line.probes >= _PROBES):
            return False
        self._turns -= 1
        line.probes += int(found.blocked)
        return True

    async def _is_crowd(self, line: _Line, found: Behind, record: TaskRecord) -> bool:
        """Tell whether there are many, or were when the last sweep ended."""
        many = self._policy.crowd.tasks
        was_crowd = line.crowd is not None or (line.before is not None and line.before.is_many(many))
        if not was_crowd and line.count < many:
            return False
        is_known = found.cause is not CrowdCause.QUEUE_LONG or is_exhausted(record)  # its Agent said so
        line.lasts = line.lasts or is_known or await self._is_long(line, record)
        return was_crowd or line.lasts

    async def _is_long(self, line: _Line, record: TaskRecord) -> bool:
        """Look at an Agent's queue, once in a sweep."""
        async with self._reading:
            if line.is_long is None:
                agents = {step.shape.agent for step in record.steps}
                queues = {requests_queue(agent) for agent in agents}
                piles = [each.waiting for each in await self._ports.queues.depths() if each.queue in queues]
                oldest = [pile.oldest_at for pile in piles if pile and pile.oldest_at]
                line.is_long = is_long(min(oldest, default=None), record, self._ports.clock.now())
            return line.is_long

    async def _known_signs(self) -> Signs:
        """Read what explains lateness, once in a sweep, if anything is late. Raises `TransientError`."""
        async with self._reading:
            if self._signs is None:
                try:
                    replied = await self._ports.times.latest(Occasion.REPLIED)
                    breakers = await self._ports.breakers.every()
                except TransientError as fault:
                    self._signs = fault
                else:
                    now = self._ports.clock.now()
                    limited = frozenset(each.service for each in breakers if is_reached(each, now))
                    self._signs = Signs(replied, {each.service: each for each in breakers}, limited)
        if isinstance(self._signs, TransientError):
            raise TransientError(f"what explains lateness can't be read: {self._signs}")
        return self._signs


def _late_since(record: TaskRecord) -> datetime:
    return record.task.complete_by or record.task.due_at


def _new_crowd(found: Behind, since: datetime, now: datetime) -> Crowd:
    return Crowd(behind=found.name, cause=found.cause, since=since, tasks=0, found_at=now, until=now)
