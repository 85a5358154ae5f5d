"""When a step, or a request, that found no place at its service tries again: about when its turn comes."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

#: The slowest pace that is assumed, in calls a second: places may be free again at any time.
_LEAST_PACE = 0.5
#: As many more come as have a place: what is done elsewhere, or faster, must leave no place empty.
_MORE = 2.0
_SOONEST, _LATEST = timedelta(seconds=1), timedelta(seconds=60)


class Turns:
    """The turns that one instance has given, one after the other."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._last: datetime | None = None

    def next(self, now: datetime, pace: float) -> datetime:
        """Give the next turn where so many calls a second end: in a second at least, in a minute at most."""
        soonest = now + _SOONEST
        last = soonest if self._last is None else max(self._last, soonest)
        self._last = last + timedelta(seconds=1 / (_MORE * max(pace, _LEAST_PACE)))
        if self._last <= now + _LATEST:
            return self._last
        self._last = now + _LATEST  # very many wait: they are spread over the time until then
        return now + _LATEST * (0.5 + self._random.random() / 2)
