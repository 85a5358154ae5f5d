"""How much one caller may ask of one instance: requests a minute, and requests at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from functions.pattern.ports import Clock
from functions.web.callers import Caller
from functions.web.problems import ProblemError

#: Callers that are remembered before those are forgotten that ask for nothing.
_MOST_REMEMBERED = 1_000
_SECONDS_A_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of each caller: orders and other requests `per_minute`, requests `in_flight`."""

    per_minute: int
    in_flight: int


class Allowance:
    """One caller's token bucket: it holds a minute's requests, and fills as fast.

    What is larger than a request, such as a batch, may draw more than there is: the next one then waits.
    So no cap makes a batch impossible, and over time none is passed.
    """

    def __init__(self, per_minute: int, now: datetime) -> None:
        self._most = float(per_minute)
        self._per_second = per_minute / _SECONDS_A_MINUTE
        self._tokens = self._most
        self._filled_at = now
        self.in_flight = 0

    def spend(self, tokens: int) -> None:
        """Draw tokens, be they there or not."""
        self._tokens -= tokens

    def wait(self, now: datetime) -> float:
        """Tell in how many seconds the next request may come; 0: now."""
        seconds = max(0.0, (now - self._filled_at).total_seconds())  # a clock may be set back
        self._tokens = min(self._most, self._tokens + seconds * self._per_second)
        self._filled_at = now
        return max(0.0, (1 - self._tokens) / self._per_second)

    def is_idle(self, now: datetime) -> bool:
        """Tell whether forgetting this would change nothing."""
        self.wait(now)
        return self.in_flight == 0 and self._tokens == self._most


class CallerCaps:
    """Refuses with 429 what passes a caller's caps, before the body is read.

    Instances count each for itself and forget when they end, so the caps of an application are those of
    one instance times the instances.
    """

    def __init__(self, app: ASGIApp, *, caps: Caps, clock: Clock) -> None:
        self._app = app
        self._caps = caps
        self._clock = clock
        self._allowances: dict[str, Allowance] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through. Raises `ProblemError` 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller: Caller = scope["caller"]
        with self._admitted(self._allowance_of(caller.name)) as scope["allowance"]:
            await self._app(scope, receive, send)

    @contextmanager
    def _admitted(self, allowance: Allowance) -> Iterator[Allowance]:
        if allowance.in_flight >= self._caps.in_flight:
            raise _too_many(f"At most {self._caps.in_flight} requests at a time.", seconds=1)
        if wait := allowance.wait(self._clock.now()):
            raise _too_many(f"At most {self._caps.per_minute} orders and requests a minute.", seconds=wait)
        allowance.spend(1)
        allowance.in_flight += 1
        try:
            yield allowance
        finally:
            allowance.in_flight -= 1

    def _allowance_of(self, name: str) -> Allowance:
        if name not in self._allowances:
            now = self._clock.now()
            if len(self._allowances) >= _MOST_REMEMBERED:
                self._allowances = {
                    known: each for known, each in self._allowances.items() if not each.is_idle(now)
                }
            self._allowances[name] = Allowance(self._caps.per_minute, now)
        return self._allowances[name]


def _too_many(detail: str, *, seconds: float) -> ProblemError:
    headers = {"Retry-After": str(math.ceil(seconds))}
    return ProblemError(HTTPStatus.TOO_MANY_REQUESTS, detail, headers=headers)


async def _allowance_of(request: Request) -> Allowance:
    allowance: Allowance = request.scope["allowance"]
    return allowance


#: What the caller may still ask for, as a parameter of a route that costs more than one request.
CallersAllowance = Annotated[Allowance, Depends(_allowance_of)]
