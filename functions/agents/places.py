"""The places at one remote service in this process: a step holds one, and each call is made in one."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from random import SystemRandom

from functions.agents.lease import Lease
from functions.agents.shared_record import SharedRecord
from functions.agents.tries import Turns
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.ports import Ports
from functions.pattern.ramp import set_back
from functions.pattern.shares import Demand

#: Seconds for which a step, or a request, waits for a place here, before it waits elsewhere.
PLACE_SECONDS = 1.0

#: Tells until when at the latest a call lasts that begins at a time (UTC).
CutOff = Callable[[datetime], datetime]


class CallPlace:
    """What a step needs to have its service called; it `counts` where the calls are limited."""

    def __init__(self, places: Places, *, counts: bool) -> None:
        self.places = places
        self.counts = counts
        #: Calls that a step makes at the same time go in turn: if each took a place, steps that hold all
        #: places would wait for each other.
        self.turn = asyncio.Lock()
        #: Whether its step is done; what that left under way takes a place for its call alone.
        self.is_over = False

    def release(self) -> None:
        """Have another use it."""
        if self.counts:
            self.counts = False
            self.places.released()

    @contextmanager
    def given(self) -> Iterator[None]:
        """Have the calls within the block made in this place, and release it then."""
        token = _GIVEN.set(self)
        try:
            yield
        finally:
            _GIVEN.reset(token)
            self.is_over = True
            self.release()


_GIVEN: ContextVar[CallPlace | None] = ContextVar("given", default=None)


class Places:
    """The places at one service. At most `at_once` calls, and those of the ramp, are in flight."""

    def __init__(
        self,
        ports: Ports,
        shared: SharedRecord,
        policy: BreakerPolicy,
        *,
        at_once: int | None,
        skew: timedelta,
    ) -> None:
        self._clock = ports.clock
        self._shared = shared
        self._holder = ports.new_id()[:12]
        self._turns = Turns(SystemRandom())
        #: The seconds of a call, on average of the latest eight; None before the first.
        self._seconds: float | None = None
        self._held = 0
        self._in_flight = 0
        self._waiting = deque[asyncio.Future[CallPlace]]()
        self._behind = deque[asyncio.Future[None]]()
        self._peak_since = self._clock.now()
        self._peaks = (0, 0)
        demand, changed = self._demand, self._hand_out
        self._lease = Lease(
            ports.clock, shared, policy, at_once=at_once, skew=skew, demand=demand, changed=changed
        )

    def take_now(self) -> CallPlace | None:
        """Take a place if there is one."""
        if self._lease.limit is None:
            return CallPlace(self, counts=False)
        place = None if self._waiting else self._taken()
        self._note_peak(1 if place is None else 0)
        if place is None or self._held >= self._lease.places_for_more:
            self._lease.look_soon()
        return place

    async def take(self, seconds: float | None = None) -> CallPlace | None:
        """Wait for a place for so long (None: as long as the caller does); None when there is none."""
        place = self.take_now()
        if place is not None:
            return place
        turn: asyncio.Future[CallPlace] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._note_peak()
        try:
            await asyncio.wait({turn}, timeout=seconds)
        except asyncio.CancelledError:
            if turn.done():
                turn.result().release()
            raise
        finally:
            if not turn.done():
                self._waiting.remove(turn)
        return turn.result() if turn.done() else None

    def next_turn(self) -> datetime:
        """Return the time of the next try where no place was free; an instance without any counts on one."""
        return self._turns.next(self._clock.now(), max(1, self._lease.places_for_more) / (self._seconds or 1))

    @asynccontextmanager
    async def for_call(self) -> AsyncIterator[CallPlace]:
        """Give the place of the step that is under way, in its turn, or another where there is none."""
        given = _GIVEN.get()
        if given is not None and given.places is self and self._lease.limit is not None:
            async with given.turn:
                try:
                    yield given
                finally:
                    if given.is_over:
                        given.release()
            return
        own = await self.take() or CallPlace(self, counts=False)
        try:
            yield own
        finally:
            own.release()

    @asynccontextmanager
    async def call_in(self, place: CallPlace, cut_off: CutOff) -> AsyncIterator[None]:
        """Make one call, which ends at its cut-off; wait until it may begin."""
        await self._begin(place, cut_off)
        began = self._clock.now()
        try:
            yield
        finally:
            now = self._clock.now()
            seconds = max(0.01, (now - began).total_seconds())
            before = seconds if self._seconds is None else self._seconds
            self._seconds = before + (seconds - before) / 8
            self._end()

    def succeeded(self) -> None:
        """Hear of a call that succeeded."""
        self._lease.succeeded_at = self._clock.now()

    async def failed(self) -> None:
        """Hear of a call that failed."""
        if self._shared.record.ramp is not None:
            now = self._clock.now()
            await self._shared.change(lambda record: set_back(record, now))

    def released(self) -> None:
        """Hear of a place that is free."""
        self._held -= 1
        self._hand_out()

    def stop(self) -> None:
        """Leave the share as it is: it lapses by itself."""
        self._lease.stop()

    async def _begin(self, place: CallPlace, cut_off: CutOff) -> None:
        while not (place.counts or self._lease.limit is None):
            await self._count(place)
        while True:
            await self._in_turn()
            now = self._clock.now()
            if self._lease.limit is None or self._lease.covers(cut_off(now)):
                return
            self._end()  # nothing is in flight yet: when its lease has lapsed, another may have its place
            await self._lease.made_for(cut_off(now) - now)

    async def _in_turn(self) -> None:
        behind: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._behind.append(behind)
        self._let_begin()
        try:
            await behind
        except asyncio.CancelledError:
            if not behind.cancelled():
                self._end()
            elif behind in self._behind:
                self._behind.remove(behind)
            raise

    def _let_begin(self) -> None:
        while self._behind and self._in_flight < self._may_be_in_flight():
            behind = self._behind.popleft()
            if not behind.done():
                behind.set_result(None)
                self._in_flight += 1

    def _end(self) -> None:
        self._in_flight -= 1
        self._let_begin()

    def _may_be_in_flight(self) -> float:
        if self._lease.limit is None:
            return math.inf
        return min(self._lease.places, max(self._lease.places_for_more, self._held - self._ahead()))

    def _ahead(self) -> int:
        """Return the steps that may start half a second before their place is free, to record their start."""
        if self._seconds is None:
            return 0
        return math.floor(self._lease.places_for_more * 0.5 / max(self._seconds, 0.5))

    async def _count(self, place: CallPlace) -> None:
        other = await self.take()
        if other is not None and other.counts:
            other.counts, place.counts = False, True

    def _taken(self) -> CallPlace | None:
        if self._held >= self._lease.places_for_more + self._ahead():
            return None
        self._held += 1
        self._note_peak()
        return CallPlace(self, counts=True)

    def _hand_out(self) -> None:
        self._let_begin()
        while self._waiting:
            place = CallPlace(self, counts=False) if self._lease.limit is None else self._taken()
            if place is None:
                return
            turn = self._waiting.popleft()
            if turn.done():
                place.release()
            else:
                turn.set_result(place)

    def _note_peak(self, more: int = 0) -> None:
        # A call may be under way although its step, which held the place, is done.
        under_way = max(self._held, self._in_flight + len(self._behind))
        now, work = self._clock.now(), under_way + len(self._waiting) + more
        peak_of = timedelta(seconds=1)  # the peak is the highest of two such periods
        if not self._peak_since <= now < self._peak_since + peak_of:
            is_recent = now < self._peak_since + 2 * peak_of
            self._peaks, self._peak_since = (self._peaks[1] if is_recent else 0, 0), now
        self._peaks = (self._peaks[0], max(self._peaks[1], work))

    def _demand(self) -> Demand:
        self._note_peak()
        return Demand(
            holder=self._holder,
            in_flight=self._in_flight,
            held=max(0, self._held - self._ahead()),
            wanted=max(self._peaks),
        )
