"""Measures orders: one at a time, many at once, and at a rate."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import cycle

import aiohttp

from local.bench.host_figures import (
    Figures,
    Sessions,
    completed_orders,
    history_events,
    read_figures,
    until_completed,
)
from local.bench.processes import cpu_of
from local.bench.workloads import Workload
from local.callers.client import OrderStatus
from local.progress import Phase

_CONNECTIONS = 50


@dataclass(frozen=True, slots=True)
class OrdersMeasured:
    """The measurements of one phase. Times are in seconds; rates are per second; CPU times by process."""

    count: int
    processed: int
    accepted_rate: float
    submit_seconds: list[float]
    finished_rate: float
    end_to_end_seconds: list[float]
    figures: Figures
    history_events: int
    cpu_seconds: Mapping[str, float]

    def per_order(self, counted: float) -> float:
        """Return a count per order."""
        return counted / self.count


def connect(url: str, connections: int = _CONNECTIONS) -> aiohttp.ClientSession:
    """Return a session with as many connections as a busy caller has."""
    return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=connections))


class OrderSender:
    """Sends the orders of a workload to the hosts in turn, and measures the CPU time meanwhile.

    `sessions` has a session for each host; `processes` has the ids of the measured processes by name.
    """

    def __init__(self, sessions: Sessions, workload: Workload, processes: Mapping[str, int]) -> None:
        self._sessions = sessions
        self._turns = cycle(sessions)
        self._workload = workload
        self._processes = processes

    async def one_at_a_time(self, phase: Phase) -> OrdersMeasured:
        """Submit each order when the order before is finished."""
        return await self._measure(phase, at_once=1)

    async def all_at_once(self, phase: Phase) -> OrdersMeasured:
        """Submit all orders as fast as they are accepted."""
        return await self._measure(phase, at_once=phase.total)

    async def at_rate(self, phase: Phase, rate: float) -> OrdersMeasured:
        """Submit `rate` orders per second, at even intervals."""
        return await self._measure(phase, at_once=phase.total, rate=rate)

    async def _measure(self, phase: Phase, *, at_once: int, rate: float = math.inf) -> OrdersMeasured:
        sessions, last = self._sessions, self._workload.last_function
        before, done = await read_figures(sessions), await completed_orders(sessions, last)
        submitted: list[tuple[str, float]] = []
        with cpu_of(self._processes) as cpu_seconds:
            start = time.perf_counter()
            for first in range(0, phase.total, at_once):
                submitted += await asyncio.gather(*(self._submit(each / rate) for each in range(at_once)))
                accepted_at = time.perf_counter()
                await until_completed(
                    sessions, last, done + first + at_once, lambda completed: phase.show(completed - done)
                )
            finished_at = time.perf_counter()
        figures = (await read_figures(sessions)).since(before)
        orders = await asyncio.gather(*(self._look_at(location) for location, _ in submitted))
        return OrdersMeasured(
            count=phase.total,
            processed=sum(order.state == "Processed" for order in orders),
            accepted_rate=phase.total / (accepted_at - start),
            submit_seconds=[seconds for _, seconds in submitted],
            finished_rate=phase.total / (finished_at - start),
            end_to_end_seconds=[order.seconds for order in orders if order.seconds is not None],
            figures=figures,
            history_events=await history_events(sessions[0], [order.id for order in orders], figures),
            cpu_seconds=cpu_seconds,
        )

    async def _submit(self, delay: float) -> tuple[str, float]:
        await asyncio.sleep(delay)
        start, path = time.perf_counter(), f"/api/{self._workload.resource}"
        async with next(self._turns).post(path, json=self._workload.body, raise_for_status=True) as answer:
            return answer.headers["Location"], time.perf_counter() - start

    async def _look_at(self, location: str) -> OrderStatus:
        async with self._sessions[0].get(location, raise_for_status=True) as answer:
            return OrderStatus.model_validate(await answer.json())
