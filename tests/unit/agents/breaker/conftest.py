"""Instances of the application, each with a circuit breaker of its own for one service."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from functions.agents import lease
from functions.agents.breaker import Breaker, CircuitOpenError
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.errors import TransientError
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports

#: The breaker opens at the third failure in a row, for ten seconds.
POLICY = BreakerPolicy(failures=3, open_for=timedelta(seconds=10))
FAILURES = 3
OPEN_FOR = 10

#: Seconds of real time in which something happens unless all calls wait, and how far time then goes on.
_MOMENT, _LONGER = 0.2, 0.5


async def cut_short(call: Awaitable[object], begun: Callable[[], int]) -> None:
    """Begin a call, and once it is counted as `begun`, end it as complete-by does. Raises `TimeoutError`."""
    limit = asyncio.timeout(None)

    async def limited() -> None:
        async with limit:
            await call

    before = begun()
    task = asyncio.create_task(limited())
    while begun() == before:
        await asyncio.sleep(0)
    limit.reschedule(asyncio.get_running_loop().time())
    await task


class Drones:
    """The remote service: it answers, or raises its `fault`; calls that arrive while it is held wait."""

    def __init__(self) -> None:
        self.calls = 0
        self.holding = 0
        self.fault: Exception | None = None
        self._hold: asyncio.Event | None = None

    def hold(self) -> asyncio.Event:
        """Let calls that arrive from now on wait until the event is set."""
        self._hold = asyncio.Event()
        return self._hold

    def hold_no_more(self) -> None:
        """Answer the calls that arrive from now on; those that wait go on waiting."""
        self._hold = None

    async def attempt(self) -> str:
        """Answer one call; what it will be is settled when the call arrives."""
        self.calls += 1
        fault, hold = self.fault, self._hold
        if hold is not None:
            self.holding += 1
            await hold.wait()
            self.holding -= 1
        if fault is not None:
            raise fault
        return "delivered"


class Instances:
    """Instances that share time, rows and the service, and nothing else."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.rows = MemoryBreakerRows()
        self.drones = Drones()
        self._ended = 0

    def start(self, *, at_once: int | None = None) -> Breaker:
        """Start one more instance."""
        ports = fake_ports(clock=self.clock, breakers=self.rows)
        return Breaker("drone", ports, POLICY, at_once=at_once)

    async def call(self, *breakers: Breaker) -> list[str]:
        """Call the service once from each, at once; give the outcomes. Time passes for calls that wait."""
        passing = asyncio.create_task(self._let_time_pass())
        try:
            return list(await asyncio.gather(*(self._call(breaker) for breaker in breakers)))
        finally:
            passing.cancel()

    async def _let_time_pass(self) -> None:
        """Let it pass when nothing has happened for a moment: on a busy machine, calls take longer."""
        before: tuple[int, int, int] | None = None
        while True:
            await asyncio.sleep(_MOMENT)
            now = (self.drones.calls, self.rows.reads, self._ended)
            if now == before and self.drones.holding == 0 and not self.rows.silent:
                self.clock.advance(_LONGER)
            before = now

    async def call_in_turn(self, breaker: Breaker, times: int = FAILURES) -> list[str]:
        """Call the service from one, again and again."""
        return [await self._call(breaker) for _ in range(times)]

    async def call_held(self, breaker: Breaker) -> tuple[asyncio.Task[list[str]], asyncio.Event]:
        """Call the service from one; the call is under way until the event is set."""
        hold, calls = self.drones.hold(), self.drones.calls
        call = asyncio.create_task(self.call(breaker))
        async with asyncio.timeout(60):
            while self.drones.calls == calls:
                await asyncio.sleep(0)
        self.drones.hold_no_more()
        return call, hold

    async def open_breaker(self, breaker: Breaker | None = None) -> Breaker:
        """Let the service fail until the circuit opens, in a new instance unless one is given."""
        breaker = breaker or self.start()
        self.drones.fault = TransientError("drone answered 503")
        await self.call_in_turn(breaker)
        self.drones.calls = 0
        return breaker

    async def _call(self, breaker: Breaker) -> str:
        try:
            return await breaker.call(self.drones.attempt)
        except CircuitOpenError:
            return "circuit open"
        except TransientError:
            return "failed"
        finally:
            self._ended += 1


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have shares of calls change hands in no time."""
    monkeypatch.setattr(lease, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(lease, "_SHORT_LOOK_SECONDS", 0.01)


@pytest.fixture
def instances() -> Instances:
    """Give what the instances share."""
    return Instances()
