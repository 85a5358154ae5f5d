"""Measures orders: one at a time, and many at once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import aiohttp

from local.bench.host_figures import (
    Figures,
    completed_orders,
    history_events,
    read_figures,
    until_completed,
)
from local.bench.workloads import Workload
from local.callers.client import OrderStatus
from local.progress import Phase

_CONNECTIONS = 50


@dataclass(frozen=True, slots=True)
class OrdersMeasured:
    """The measurements of one phase. Times are in seconds; rates are per second."""

    count: int
    processed: int
    accepted_rate: float
    submit_seconds: list[float]
    finished_rate: float
    end_to_end_seconds: list[float]
    figures: Figures
    history_events: int

    def per_order(self, counted: float) -> float:
        """Return a count per order."""
        return counted / self.count


def connect(url: str, connections: int = _CONNECTIONS) -> aiohttp.ClientSession:
    """Return a session with as many connections as a busy caller has."""
    return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=connections))


async def one_at_a_time(session: aiohttp.ClientSession, workload: Workload, phase: Phase) -> OrdersMeasured:
    """Submit each order when the one before is finished."""
    return await _measure(session, workload, phase, at_once=1)


async def all_at_once(session: aiohttp.ClientSession, workload: Workload, phase: Phase) -> OrdersMeasured:
    """Submit all orders as fast as they are accepted."""
    return await _measure(session, workload, phase, at_once=phase.total)


async def _measure(
    session: aiohttp.ClientSession, workload: Workload, phase: Phase, *, at_once: int
) -> OrdersMeasured:
    before = await read_figures(session)
    done = await completed_orders(session, workload.last_function)
    submitted: list[tuple[str, float]] = []
    start = time.perf_counter()
    for first in range(0, phase.total, at_once):
        submitted += await asyncio.gather(*(_submit(session, workload) for _ in range(at_once)))
        accepted_at = time.perf_counter()
        count = done + first + at_once
        await until_completed(
            session, workload.last_function, count, lambda completed: phase.show(completed - done)
        )
    finished_at = time.perf_counter()
    figures = (await read_figures(session)).since(before)
    orders = await asyncio.gather(*(_look_at(session, location) for location, _ in submitted))
    return OrdersMeasured(
        count=phase.total,
        processed=sum(order.state == "Processed" for order in orders),
        accepted_rate=phase.total / (accepted_at - start),
        submit_seconds=[seconds for _, seconds in submitted],
        finished_rate=phase.total / (finished_at - start),
        end_to_end_seconds=[order.seconds for order in orders if order.seconds is not None],
        figures=figures,
        history_events=await history_events(session, [order.id for order in orders], figures),
    )


async def _submit(session: aiohttp.ClientSession, workload: Workload) -> tuple[str, float]:
    start = time.perf_counter()
    path = f"/api/{workload.resource}"
    async with session.post(path, json=workload.body, raise_for_status=True) as answer:
        return answer.headers["Location"], time.perf_counter() - start


async def _look_at(session: aiohttp.ClientSession, location: str) -> OrderStatus:
    async with session.get(location, raise_for_status=True) as answer:
        return OrderStatus.model_validate(await answer.json())
