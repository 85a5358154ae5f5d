"""How much one caller may ask of one instance: requests a minute, and requests at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus

from fastapi import Request
from pyrate_limiter import Duration, Rate, TokenBucket

from functions.web.callers import Caller
from functions.web.problems import ProblemError

_BUCKET = TokenBucket()


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of each caller: orders and other requests `per_minute`, requests `in_flight`."""

    per_minute: int
    in_flight: int


class Allowance:
    """A caller's token bucket for a minute's requests (`time` in milliseconds); a batch may overdraw it."""

    def __init__(self, per_minute: int, time: Callable[[], int]) -> None:
        self._time = time
        self._rate = Rate(per_minute, Duration.MINUTE)
        self._overdraft = Rate(per_minute, Duration.MINUTE, burst=1_000_000_000)  # more than any batch holds
        self._state = _BUCKET.initial([self._rate])
        self.in_flight = 0

    def spend(self, tokens: int) -> None:
        """Draw tokens, even more than there are."""
        self._state, _ = _BUCKET.step([self._overdraft], self._state, self._time(), tokens)

    def wait(self) -> float:
        """Tell in how many seconds the next request may come; 0: now."""
        _, decision = _BUCKET.step([self._rate], self._state, self._time(), 1)
        return (decision.retry_after_ms or 0) / 1_000

    def is_idle(self) -> bool:
        """Tell whether forgetting this would change nothing."""
        return self.in_flight == 0 and _BUCKET.consumed([self._rate], self._state, self._time()) == 0


class RunningTime:
    """Counts the milliseconds that pass by a clock; nothing passes while it is set back."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._last = now()
        self._passed = timedelta()

    def __call__(self) -> int:
        """Return the milliseconds since the start."""
        now = self._now()
        self._passed += max(timedelta(), now - self._last)
        self._last = now
        return self._passed // timedelta(milliseconds=1)


class CallerCaps:
    """Refuses requests beyond a caller's caps on this instance: each counts for itself."""

    def __init__(self, caps: Caps, now: Callable[[], datetime]) -> None:
        self._caps = caps
        self._time = RunningTime(now)
        self._allowances: dict[str, Allowance] = {}

    @contextmanager
    def admitted(self, caller: Caller) -> Iterator[Allowance]:
        """Count a request of the caller while it lasts; give what is left. Raises `ProblemError` 429."""
        allowance = self._allowance_of(caller.name)
        if allowance.in_flight >= self._caps.in_flight:
            raise _too_many(f"At most {self._caps.in_flight} requests at a time.", seconds=1)
        if wait := allowance.wait():
            raise _too_many(
                f"At most {self._caps.per_minute} submissions and requests a minute.", seconds=wait
            )
        allowance.spend(1)
        allowance.in_flight += 1
        try:
            yield allowance
        finally:
            allowance.in_flight -= 1

    def _allowance_of(self, name: str) -> Allowance:
        known = self._allowances
        if name not in known:
            most_remembered = 1_000
            if len(known) >= most_remembered:
                self._allowances = known = {each: it for each, it in known.items() if not it.is_idle()}
            known[name] = Allowance(self._caps.per_minute, self._time)
        return known[name]


def _too_many(detail: str, *, seconds: float) -> ProblemError:
    headers = {"Retry-After": str(math.ceil(seconds))}
    return ProblemError(HTTPStatus.TOO_MANY_REQUESTS, detail, headers=headers)


def allowance_of(request: Request) -> Allowance:
    """Give what the caller may still ask for, to a route that costs more than one request."""
    allowance: Allowance = request.scope["allowance"]
    return allowance
