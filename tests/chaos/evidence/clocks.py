"""What the hosts' clocks have told: a time in a row is that of the host which has written it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tests.chaos.hosts.clock import ClockSetting

#: Between the time at which a clock is set and the first that it tells.
_TAKES_EFFECT = timedelta(seconds=0.2)
_FOR_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ToldTimes:
    """The settings of each host's clock. Without any, what is told is true."""

    clocks: Sequence[Sequence[ClockSetting]] = ()

    def earliest(self, told: datetime) -> datetime:
        """Return the earliest true time at which one of the clocks can have told this time."""
        return min(self._true(told), default=told)

    def latest(self, told: datetime) -> datetime:
        """Return the latest one."""
        return max(self._true(told), default=told)

    def until(self, end: datetime, since: datetime) -> datetime:
        """Return the true time until which a host may work that is to stop at `end`, and began at `since`.

        One whose clock was behind for a moment meanwhile may have reckoned then how long it still has.
        """
        found = [end]
        for clock in self.clocks:
            for setting, following in pairwise([*clock, ClockSetting(_FOR_EVER, timedelta())]):
                if following.since >= since and setting.since + setting.ahead <= end:
                    found.append(end - setting.ahead)
        return max(found)

    def _true(self, told: datetime) -> list[datetime]:
        """Return all of them; no clock tells a time that is before the run, or that it has jumped over."""
        found = []
        for clock in self.clocks:
            for setting, following in pairwise([*clock, ClockSetting(_FOR_EVER, timedelta())]):
                true = told - setting.ahead
                if setting.since - _TAKES_EFFECT <= true <= _after(following.since):
                    found.append(true)
        return found


def _after(time: datetime) -> datetime:
    return time if time == _FOR_EVER else time + _TAKES_EFFECT
