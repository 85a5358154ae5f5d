"""Measures orders: one at a time, and many at once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import aiohttp

from local.bench.host_figures import Figures, completed_orchestrations, read_figures, until_completed
from local.callers.client import SAMPLE_ORDER, OrderStatus

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

    def per_order(self, counted: int) -> float:
        """Return a count per order."""
        return counted / self.count


def connect(url: str) -> aiohttp.ClientSession:
    """Return a session with as many connections as a busy caller has."""
    return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=_CONNECTIONS))


async def one_at_a_time(session: aiohttp.ClientSession, count: int) -> OrdersMeasured:
    """Submit each order when the one before is finished."""
    return await _measure(session, count, at_once=1)


async def all_at_once(session: aiohttp.ClientSession, count: int) -> OrdersMeasured:
    """Submit all orders as fast as they are accepted."""
    return await _measure(session, count, at_once=count)


async def _measure(session: aiohttp.ClientSession, count: int, *, at_once: int) -> OrdersMeasured:
    before = await read_figures(session)
    done = await completed_orchestrations(session)
    submitted: list[tuple[str, float]] = []
    start = time.perf_counter()
    for first in range(0, count, at_once):
        submitted += await asyncio.gather(*(_submit(session) for _ in range(at_once)))
        accepted_at = time.perf_counter()
        await until_completed(session, done + first + at_once)
    finished_at = time.perf_counter()
    figures = (await read_figures(session)).since(before)
    orders = [await _look_at(session, location) for location, _ in submitted]
    return OrdersMeasured(
        count=count,
        processed=sum(order.state == "Processed" for order in orders),
        accepted_rate=count / (accepted_at - start),
        submit_seconds=[seconds for _, seconds in submitted],
        finished_rate=count / (finished_at - start),
        end_to_end_seconds=[order.seconds for order in orders if order.seconds is not None],
        figures=figures,
    )


async def _submit(session: aiohttp.ClientSession) -> tuple[str, float]:
    start = time.perf_counter()
    async with session.post("/api/orders", json=SAMPLE_ORDER, raise_for_status=True) as answer:
        return answer.headers["Location"], time.perf_counter() - start


async def _look_at(session: aiohttp.ClientSession, location: str) -> OrderStatus:
    async with session.get(location, raise_for_status=True) as answer:
        return OrderStatus.model_validate(await answer.json())
