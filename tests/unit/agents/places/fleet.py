"""Instances with clocks of their own that share rows, which fail now and then, and a service that counts."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from random import Random

from functions.agents.breaker import Breaker
from functions.pattern.breaker import BreakerPolicy, BreakerRecord
from functions.pattern.errors import TransientError
from functions.pattern.shared_rows import StoredBreaker, Swap
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.ports import fake_ports
from tests.fakes.virtual_time import VirtualClock

#: How far clocks may differ, in seconds.
SKEW = 5.0
POLICY = BreakerPolicy(failures=5, open_for=timedelta(seconds=15))


class FaultyRows(MemoryBreakerRows):
    """Rows some ms away. Of requests, a part fails: before it is carried out, or after; or comes late."""

    def __init__(self, random: Random, faults: float) -> None:
        super().__init__()
        self._random = random
        self.faults = faults

    async def read(self, service: str) -> StoredBreaker | None:
        """Read a row, maybe in vain."""
        await self._travel()
        if self._random.random() < self.faults:
            raise TransientError("no route to host")
        return await super().read(service)

    async def swap(self, record: BreakerRecord, version: str | None) -> Swap:
        """Write a row; nobody may hear of it."""
        fault = self._random.random()
        if fault < self.faults / 3:
            raise TransientError("no route to host")
        if fault < self.faults * 2 / 3:  # on its way until long after it was given up
            late = asyncio.create_task(self._late(record, version))
            await asyncio.shield(late)
        swap = await super().swap(record, version)
        if fault < self.faults:
            raise TransientError("connection lost")
        return swap

    async def _late(self, record: BreakerRecord, version: str | None) -> None:
        await asyncio.sleep(self._random.uniform(0.5, 4))
        await super().swap(record, version)

    async def _travel(self) -> None:
        await asyncio.sleep(self._random.uniform(0.002, 0.02))


class Line:
    """One instance's way to the rows, until it is cut; its writes, or the answers to them, may get lost."""

    def __init__(self, rows: MemoryBreakerRows) -> None:
        self._rows = rows
        self.is_cut = False
        self.loses_writes = False
        self.loses_answers = False

    async def read(self, service: str) -> StoredBreaker | None:
        """Read a row."""
        if self.is_cut:
            raise TransientError("cut")
        return await self._rows.read(service)

    async def swap(self, record: BreakerRecord, version: str | None) -> Swap:
        """Write a row."""
        if self.is_cut or self.loses_writes:
            raise TransientError("cut")
        swap = await self._rows.swap(record, version)
        if self.loses_answers:
            raise TransientError("connection lost")
        return swap


class CountingService:
    """Counts the calls in flight, also those whose caller is gone; and by seconds, what it was busy with."""

    def __init__(self, random: Random, seconds: tuple[float, float]) -> None:
        self._random = random
        self._seconds = seconds
        self.is_down = False
        self.in_flight = 0
        self.most = 0
        self.calls = 0
        #: Seconds of calls, by the second in which they were spent.
        self.busy = defaultdict[int, float](float)
        self.most_by_second = defaultdict[int, int](int)

    async def call(self) -> None:
        """Answer one call; it is carried out whoever waits for it."""
        await asyncio.shield(asyncio.create_task(self._carry_out()))

    async def _carry_out(self) -> None:
        with self._counted():
            await asyncio.sleep(self._random.uniform(*self._seconds))
            if self.is_down:
                raise TransientError("answered 503")

    @contextmanager
    def _counted(self) -> Iterator[None]:
        time = asyncio.get_running_loop().time
        began = time()
        self.calls += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        self.most_by_second[int(began)] = max(self.most_by_second[int(began)], self.in_flight)
        try:
            yield
        finally:
            self.in_flight -= 1
            for second in range(int(began), int(time()) + 1):
                self.busy[second] += min(second + 1, time()) - max(second, began)


class Instance:
    """One host with so many tasks that each need one call after another."""

    def __init__(
        self,
        rows: MemoryBreakerRows,
        service: CountingService,
        *,
        offset: float = 0,
        tasks: int = 20,
        at_once: int | None = 10,
    ) -> None:
        self._clock = VirtualClock(offset)
        self.line = Line(rows)
        self._is_resting = False
        ports = fake_ports(clock=self._clock, breakers=self.line)
        skew = timedelta(seconds=SKEW)
        self.breaker = Breaker("drone", ports, POLICY, at_once=at_once, skew=skew)
        self._service = service
        self.done = 0
        self._tasks = [asyncio.create_task(self._work()) for _ in range(tasks)]

    async def _work(self) -> None:
        while not self._is_resting:
            place = await self.breaker.places.take(1)
            if place is None:
                wait = self.breaker.places.next_turn() - self._clock.now()
                await asyncio.sleep(wait.total_seconds())
                continue
            with place.given():
                try:
                    async with asyncio.timeout(10):
                        await self.breaker.call(self._service.call)
                except (TransientError, TimeoutError):
                    await asyncio.sleep(1)
                else:
                    self.done += 1

    async def rest(self) -> None:
        """Have no more to do than what is under way."""
        self._is_resting = True
        await asyncio.gather(*self._tasks)

    async def kill(self) -> None:
        """End it as `kill -9` does: its share stays where it is, and so do its calls at the service."""
        self.line.is_cut = True
        self.breaker.places.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
