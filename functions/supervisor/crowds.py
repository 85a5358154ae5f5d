"""Late tasks of one sweep: those that are late together get more time, or their turn, at a bounded rate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from functions.pattern.crowds import (
    Behind,
    Crowd,
    CrowdCause,
    Signs,
    after_sweep,
    agent_named,
    behind,
    is_long,
    suspected,
)
from functions.pattern.decisions import in_question
from functions.pattern.easing import may_be_extended, more_time, turn
from functions.pattern.errors import TransientError
from functions.pattern.events import Eased, Extended, GivenUp, Judgement, Parked, Recovered
from functions.pattern.messages import requests_queue
from functions.pattern.ports import Ports
from functions.pattern.ramp import is_reached
from functions.pattern.records import TaskRecord
from functions.pattern.shared_rows import Chore, Occasion
from functions.pattern.store_ports import Stored
from functions.pattern.supervision import SupervisionPolicy
from functions.supervisor.sweeping import SweepReport

_CROWDS = "crowds"
_KNOWN: TypeAdapter[tuple[Crowd, ...]] = TypeAdapter(tuple[Crowd, ...])

#: Tasks that may try, in one sweep, what blocks a crowd.
_PROBES = 5
#: The time since the last sweep that counts for the rate: not all of a pause is made up for at once.
_LONGEST_PAUSE = timedelta(minutes=2)
#: What is taken for that time when no sweep is known.
_USUAL_PAUSE = timedelta(seconds=30)

#: Alerts operators of a crowd: what is late, and how many of it have their turn a minute.
type AlertCrowd = Callable[[Crowd, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Late:
    """A task as it was read, and what is to become of it; `in_crowd` is why it is late with many."""

    stored: Stored
    event: Judgement | Parked | Eased
    in_crowd: CrowdCause | None = None


@dataclass(slots=True)
class _Line:
    """Late tasks behind the same: as long as they may be few, they are held back until the sweep's end."""

    held: list[tuple[Late, Behind]] = field(default_factory=list)
    count: int = 0
    probes: int = 0
    extended: int = 0
    crowd: Crowd | None = None
    is_long: bool | None = None


class CrowdControl:
    """What operators know of crowds; all instances share it."""

    def __init__(self, ports: Ports, policy: SupervisionPolicy, alert: AlertCrowd) -> None:
        self._ports = ports
        self._policy = policy
        self._alert = alert

    async def begin(self, latest: Mapping[str, Any] | None, report: SweepReport) -> SweptCrowds:
        """Begin a sweep that follows on the one whose heartbeat is the `latest`."""
        known: tuple[Crowd, ...] = ()
        with report.surviving("crowds"):
            known = read_crowds(await self._ports.heartbeats.latest(Chore.CROWDS))
        turns = self._turns(latest)
        return SweptCrowds(self._ports, self._policy, known, turns)

    async def report(self, swept: SweptCrowds, silent: frozenset[str], report: SweepReport) -> None:
        """Tell what is new, unless it is an Agent's silence, of which operators hear anyway."""
        with report.surviving("crowds"):
            crowds = after_sweep(swept.known, swept.found(), self._ports.clock.now())
            for each in crowds.begun:
                if each.behind not in {agent_named(agent) for agent in silent}:
                    await self._alert(each, self._policy.crowd.per_minute)
            if crowds.known != swept.known:
                await self._ports.heartbeats.beat(Chore.CROWDS, written_crowds(crowds.known))

    def _turns(self, latest: Mapping[str, Any] | None) -> int:
        """Give how many tasks may have their turn in this sweep; one at least, or none ever would."""
        before, now = (latest or {}).get("started_at"), self._ports.clock.now()
        pause = now - before if isinstance(before, datetime) else _USUAL_PAUSE
        pause = min(max(pause, timedelta()), _LONGEST_PAUSE)
        return max(1, int(self._policy.crowd.per_minute * pause / timedelta(minutes=1)))


class SweptCrowds:
    """The late tasks of one sweep, by what they are behind."""

    def __init__(self, ports: Ports, policy: SupervisionPolicy, known: tuple[Crowd, ...], turns: int) -> None:
        self._ports = ports
        self._policy = policy
        self._turns = turns
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
        line = self._lines.setdefault(found.name, _Line())
        line.count += 1
        if not await self._is_crowd(line, found, record):
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
            event = turn(record, found, now, self._policy, in_crowd=True)
        else:
            line.extended += 1
            place = None if found.blocked else line.extended
            event = more_time(record, found, now, self._policy, place=place)
        late_since = record.task.complete_by or record.task.due_at
        crowd = line.crowd or _new_crowd(found, late_since, now)
        until = event.until if isinstance(event, Extended) else None
        line.crowd = crowd.with_task(late_since, until, blocked=found.blocked, had_turn=had_turn)
        return Late(late.stored, event, found.cause)

    def _has_turn(self, line: _Line, found: Behind) -> bool:
        if self._turns <= 0 or (found.blocked and line.probes >= _PROBES):
            return False
        self._turns -= 1
        line.probes += int(found.blocked)
        return True

    async def _is_crowd(self, line: _Line, found: Behind, record: TaskRecord) -> bool:
        """Tell whether there are many, or were when the last sweep ended."""
        if line.crowd is not None or any(each.behind == found.name for each in self.known):
            return True
        if line.count < self._policy.crowd.tasks:
            return False
        return found.cause is not CrowdCause.QUEUE_LONG or await self._is_long(line, record)

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


def _new_crowd(found: Behind, since: datetime, now: datetime) -> Crowd:
    return Crowd(behind=found.name, cause=found.cause, since=since, tasks=0, found_at=now, until=now)


def read_crowds(row: Mapping[str, Any] | None) -> tuple[Crowd, ...]:
    """Read what was kept; what can't be read is forgotten, and would be told again."""
    try:
        return _KNOWN.validate_json((row or {}).get(_CROWDS, b"[]"))
    except ValidationError:
        return ()


def written_crowds(known: tuple[Crowd, ...]) -> Mapping[str, Any]:
    """Write what is known as figures of a sweep."""
    return {_CROWDS: _KNOWN.dump_json(known)}
