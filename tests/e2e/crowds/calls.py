"""The calls that a service has had: when each began and ended, and how many were in flight then."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallSpan:
    """One call, in the loop's time; `in_flight` counts those in flight when it began, itself included."""

    began: float
    ended: float
    in_flight: int


class CallSpans:
    """Counts calls, also of callers that are gone."""

    def __init__(self) -> None:
        self.ended: list[CallSpan] = []
        self._in_flight = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a call for as long as the block lasts."""
        time = asyncio.get_running_loop().time
        self._in_flight += 1
        began, in_flight = time(), self._in_flight
        try:
            yield
        finally:
            self._in_flight -= 1
            self.ended.append(CallSpan(began, time(), in_flight))

    @property
    def most(self) -> int:
        """Tell how many were in flight at most, of those that have ended."""
        return self.most_since(-math.inf)

    def most_since(self, began: float) -> int:
        """Tell how many were in flight at most, when one of those began that began since, and have ended."""
        return max((each.in_flight for each in self.ended if each.began >= began), default=0)

    def on_average(self, since: float, until: float) -> list[float]:
        """Return how many calls were in flight on average of each whole second."""
        busy = defaultdict[int, float](float)
        for each in self.ended:
            for second in range(math.floor(each.began), math.floor(each.ended) + 1):
                busy[second] += min(second + 1, each.ended) - max(second, each.began)
        return [round(busy[second], 1) for second in range(math.ceil(since), math.floor(until))]

    def per_second(self, since: float) -> list[int]:
        """Count the calls that began in each second since a time."""
        begun = Counter(math.floor(each.began - since) for each in self.ended if each.began >= since)
        return [begun[second] for second in range(max(begun, default=-1) + 1)]

    def beyond(self, since: float, allowed: Callable[[float], float]) -> Sequence[CallSpan]:
        """Return the calls that were too many: `allowed` says by the seconds since then how many may be."""
        after = [each for each in self.ended if each.began >= since]
        return [each for each in after if each.in_flight > allowed(each.began - since)]
