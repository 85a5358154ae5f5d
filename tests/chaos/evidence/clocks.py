"""What the hosts' clocks have told: a time in a row is that of the host which has written it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.chaos.hosts.clock import ClockSetting

#: A process may read the true time just before its clock is set, and then how far it is to be ahead.
_READS = timedelta(seconds=0.2)
_FOR_EVER = datetime.max.replace(tzinfo=UTC)
_END = ClockSetting(_FOR_EVER, timedelta(), alone=_FOR_EVER)


@dataclass(frozen=True, slots=True)
class ToldTimes:
    """The settings of each host's clock. Without any, what is told is true."""

    clocks: Sequence[Sequence[ClockSetting]] = ()

    def earliest(self, told: datetime, to: datetime | None = None) -> datetime:
        """Return the earliest true time at which a clock can have told this time, or one up to `to`."""
        found = [first for first, _ in self._true(told, to or told)]
        return min(found, default=told)

    def latest(self, told: datetime) -> datetime:
        """Return the latest true time at which one of them can have told this time."""
        return max((last for _, last in self._true(told, told)), default=told)

    def _true(self, told: datetime, to: datetime) -> list[tuple[datetime, datetime]]:
        """Return when each clock told these times; none tells what is before the run, or was jumped over."""
        found = []
        for clock in self.clocks:
            for setting, following in pairwise([*clock, _END]):
                first = max(told - setting.ahead, setting.since - _READS)
                last = min(to - setting.ahead, following.alone)
                if first <= last:
                    found.append((first, last))
        return found
