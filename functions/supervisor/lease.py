"""Leader election among Supervisors: a row with an expiry, taken by compare-and-swap.

It is an economy, no safeguard: two Supervisors at once do no harm, because each of their writes is
conditional. So a sweep that outlasts its lease goes on, and clocks need not agree.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from functions.pattern.errors import TransientError
from functions.pattern.ports import Clock

_log = logging.getLogger(__name__)

#: A sweep usually takes less than a second; after a crash, nobody sweeps for as long as this.
_LASTS = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Tenure:
    """Who leads, and until when (UTC)."""

    holder: str
    until: datetime


@dataclass(frozen=True, slots=True)
class StoredTenure:
    """A tenure as it was read; `version` guards the next write (an ETag)."""

    tenure: Tenure
    version: str


class LeaseRow(Protocol):
    """The one row that Supervisors compete for. Its methods raise `TransientError`."""

    async def read(self) -> StoredTenure | None:
        """Read the row, or None when nobody has ever led."""

    async def write(self, tenure: Tenure, version: str | None) -> StoredTenure | None:
        """Write the row if it is still at `version` (None: not there), or give None when it is not."""


class Lease:
    """Lets one Supervisor sweep at a time; `holder` names this one."""

    def __init__(self, row: LeaseRow, *, holder: str, clock: Clock) -> None:
        self._row = row
        self._holder = holder
        self._clock = clock
        self._held: StoredTenure | None = None

    async def take(self) -> bool:
        """Become the leader, unless another Supervisor is. Raises `TransientError`."""
        there = await self._row.read()
        now = self._clock.now()
        if there is not None and there.tenure.holder != self._holder and there.tenure.until > now:
            return False
        mine = Tenure(self._holder, now + _LASTS)
        self._held = await self._row.write(mine, None if there is None else there.version)
        if self._held is None:
            self._held = await self._read_back(mine)
        return self._held is not None

    async def give_back(self) -> None:
        """Let another Supervisor lead at once; should this fail, the lease expires by itself."""
        held, self._held = self._held, None
        if held is None:
            return
        try:
            await self._row.write(Tenure(self._holder, self._clock.now()), held.version)
        except TransientError as fault:
            _log.info("the lease is not given back, and expires by itself (%s)", fault)

    async def _read_back(self, mine: Tenure) -> StoredTenure | None:
        """After a conflict: it may have been our own write, whose answer was lost."""
        there = await self._row.read()
        return there if there is not None and there.tenure == mine else None
