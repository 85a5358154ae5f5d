"""How much one caller may ask of one instance: requests a minute, and requests at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    """A caller's token bucket for a minute's requests; a batch may overdraw it.

    `time` returns the nanoseconds of a clock that is never set back.
    """

    def __init__(self, per_minute: int, time: Callable[[], int]) -> None:
        self._nanoseconds = time
        self._rate = Rate(per_minute, Duration.MINUTE)
        self._overdraft = Rate(per_minute, Duration.MINUTE, burst=1_000_000_000)  # more than any batch holds
        self._state = _BUCKET.initial([self._rate])
        self.in_flight = 0

    def spend(self, tokens: int) -> None:
        """Draw tokens, even more than there are."""
        self._state, _ = _BUCKET.step([self._overdraft], self._state, self._now(), tokens)

    def wait(self) -> float:
        """Tell in how many seconds the next request may come; 0: now."""
        _, decision = _BUCKET.step([self._rate], self._state, self._now(), 1)
        return (decision.retry_after_ms or 0) / 1_000

    def _now(self) -> int:
        return self._nanoseconds() // 1_000_000  # the bucket counts milliseconds

    def is_idle(self) -> bool:
        """Tell whether forgetting this would change nothing."""
        return self.in_flight == 0 and _BUCKET.consumed([self._rate], self._state, self._now()) == 0


class CallerCaps:
    """Refuses requests beyond a caller's caps on this instance: each counts for itself."""

    def __init__(self, caps: Caps, time: Callable[[], int]) -> None:
        self._caps, self._time = caps, time
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
