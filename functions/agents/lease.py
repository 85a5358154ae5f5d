"""One instance's share of a remote service's limit: leased, renewed while there is work, and given back.

A lapsed share has no call in flight: a call begins only if its cut-off lies before the lease's end, less what
clocks may differ by. So a lease lasts as long as the longest call that this instance makes, and longer by the
skew and two renewals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from dataclasses import replace
from datetime import datetime, timedelta

from functions.agents.shared_record import SharedRecord, Watch
from functions.pattern.breaker import BreakerPolicy, BreakerRecord, BreakerState
from functions.pattern.ports import Clock
from functions.pattern.ramp import grown, limit_of
from functions.pattern.shares import Demand, Share, given_back, is_short, part_of, renewed

_log = logging.getLogger(__name__)

#: Seconds between two looks: while all is well, and while an instance lacks places; more with each instance.
_LOOK_SECONDS, _SHORT_LOOK_SECONDS, _MORE_SECONDS = 1.0, 0.25, 0.05


class Lease:
    """The places of this instance. `demand` tells what it has to do; `changed` hears of each look."""

    def __init__(
        self,
        clock: Clock,
        shared: SharedRecord,
        policy: BreakerPolicy,
        *,
        at_once: int | None,
        skew: timedelta,
        demand: Callable[[], Demand],
        changed: Callable[[], None],
    ) -> None:
        self.succeeded_at: datetime | None = None
        self._clock = clock
        self._shared = shared
        self._policy = policy
        self._at_once = at_once
        self._skew = skew
        self._demand = demand
        self._changed = changed
        self._ramp = Watch()
        self._places = self._part = 0
        self._until = self._renewed_at = self._used_at = clock.now()
        #: The longest call that the lease is made for: an idempotent call has 10 seconds for its answer.
        self._longest = timedelta(seconds=10)
        #: The renewal interval of an unchanged lease.
        self._renewal = timedelta(seconds=3)
        self._looks = asyncio.Event()
        self._looked = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def limit(self) -> int | None:
        """Tell how many calls may be in flight over all instances; None: any number.

        While the state store is unavailable, a ramp can't be shared, and nothing is held up for it.
        """
        if self._at_once is None and self._shared.store_is_down:
            return None
        return limit_of(self._shared.record, self._at_once)

    @property
    def places(self) -> int:
        """Tell how many places there are."""
        return self._places if self._clock.now() + self._skew < self._until else 0

    @property
    def places_for_more(self) -> int:
        """Tell how many of the places may be taken anew: fewer, while another has to get some of them."""
        return min(self.places, self._part)

    def covers(self, cut_off: datetime) -> bool:
        """Tell whether a call that is cut off then ends before the lease does, by any clock."""
        return cut_off + self._skew <= self._until

    def look_soon(self) -> None:
        """Have the share looked at soon, and kept from then on."""
        self._looks.set()
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep(), context=Context())

    def stop(self) -> None:
        """Renew it no more; it lapses by itself."""
        if self._keeper is not None:
            self._keeper.cancel()

    async def made_for(self, call: timedelta) -> None:
        """Wait for a look that has the lease cover a call of such a length."""
        self._longest = max(self._longest, call)
        self._looked.clear()
        self.look_soon()
        await self._looked.wait()

    async def _keep(self) -> None:
        while True:
            self._looks.clear()
            try:
                is_kept = await self._look()
            except Exception:  # noqa: BLE001 - the next look may succeed
                _log.exception("the share of calls in flight could not be renewed")
                is_kept = True
            self._looked.set()
            self._changed()
            if not is_kept:
                return
            await asyncio.sleep(_SHORT_LOOK_SECONDS if self._shared.store_is_down else 0.02)
            try:
                async with asyncio.timeout(self._pause()):
                    await self._looks.wait()
            except TimeoutError:
                continue

    def _pause(self) -> float:
        now, shares, demand = self._clock.now(), self._shared.record.shares, self._demand()
        has_spare = self._places > min(demand.wanted, self._part) and is_short(shares, demand.holder, now)
        if demand.wanted > self._places or has_spare:
            return min(_LOOK_SECONDS, _SHORT_LOOK_SECONDS + _MORE_SECONDS * len(shares))
        return _LOOK_SECONDS

    async def _look(self) -> bool:
        await self._shared.refresh(timedelta(seconds=self._pause()))
        now, demand = self._clock.now(), self._demand()
        if demand.wanted:
            self._used_at = now
        limit = self.limit
        if limit is None:
            self._places = 0
            return False
        self._part = part_of(self._shared.record.shares, limit, demand, now)
        if not demand.wanted and now >= self._used_at + timedelta(seconds=5):
            self._places, now = 0, self._clock.now()
            await self._shared.change(
                lambda record: replace(record, shares=given_back(record.shares, demand.holder, now))
            )
            return bool(self._demand().wanted)
        if self._is_due(now, demand):
            await self._renew(now)
        return True

    def _is_due(self, now: datetime, demand: Demand) -> bool:
        if not self._renewed_at <= now < self._renewed_at + self._renewal:
            return True
        if not self.covers(now + self._longest):
            return True
        row = self._shared.record
        wanted = self._wanted_of(row, now, demand)
        mine, there = _share(wanted, demand.holder), _share(row, demand.holder)
        if mine is None or there is None:
            return mine is not there or wanted.ramp != row.ramp
        is_short = mine.wanted > mine.places
        was_short = there.wanted > there.places
        return (mine.places, is_short, wanted.ramp) != (there.places, was_short, row.ramp)

    async def _renew(self, now: datetime) -> None:
        mine: Share | None = None

        def change(record: BreakerRecord) -> BreakerRecord:
            nonlocal mine
            demand = self._demand()
            wanted = self._wanted_of(record, now, demand)
            mine = _share(wanted, demand.holder)
            # Until the answer is known, only what holds in both cases.
            self._places = min(self._places, 0 if mine is None else mine.places)
            self._until = self._until if mine is None else min(self._until, mine.until)
            return wanted

        if await self._shared.change(change) is not None and mine is not None:
            self._places, self._until, self._renewed_at = mine.places, mine.until, now
        self._part = part_of(self._shared.record.shares, self.limit or 0, self._demand(), now)

    def _wanted_of(self, record: BreakerRecord, now: datetime, demand: Demand) -> BreakerRecord:
        """Give the row as it should be: with this instance's share, and the ramp grown if it is time."""
        if record.state is BreakerState.CLOSED:
            record = grown(
                record,
                now,
                self._policy,
                at_once=self._at_once,
                succeeded_at=self.succeeded_at,
                seen_for=self._ramp.seen_for((record.ramp, record.ramp_at)),
            )
        limit = limit_of(record, self._at_once)
        if limit is None:
            return replace(record, at_once=None, shares=given_back(record.shares, demand.holder, now))
        until = now + self._longest + self._skew + 2 * self._renewal
        shares = renewed(record.shares, limit, demand, now, until)
        return replace(record, at_once=self._at_once, shares=shares)


def _share(record: BreakerRecord, holder: str) -> Share | None:
    return next((share for share in record.shares if share.holder == holder), None)
