"""Measures orders: one at a time, many at once, and at a rate; with the counters of the hosts."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import cycle
from typing import Any

import aiohttp

from local.bench.probes import cpu_of
from local.bench.workloads import Workload
from local.callers.client import OrderStatus
from local.progress import Phase

#: Seconds after which a phase counts as failed.
_PATIENCE = 300.0
_LOOK_EVERY = 0.05
_INSTANCES = "/runtime/webhooks/durabletask/instances"
#: History holds the start and the end of each episode, which no view of it shows.
_EVENTS_AN_EPISODE = 2
#: Functions that the benchmark itself calls, and the sample services.
_OF_OTHERS = {"operations", "services"}


#: A session for each host.
type Sessions = Sequence[aiohttp.ClientSession]
_CONNECTIONS = 50


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts since the hosts started; `since` gives those of a phase."""

    transactions: int
    operations: int
    reads: int
    messages: int
    episodes: int
    activities: int
    executions: int

    def since(self, before: Figures) -> Figures:
        """Return the counts from `before` until this."""
        names = (each.name for each in fields(self))
        return Figures(**{name: getattr(self, name) - getattr(before, name) for name in names})


async def completed_orders(sessions: Sessions, last_function: str) -> int:
    """Count the orders that the hosts have completed since they started.

    Each order has one orchestration, and one call of `last_function`, which records its end.
    """
    statuses = await asyncio.gather(*map(_status, sessions))
    ended: int = sum(each["functions"].get(last_function, {}).get("succeeded", 0) for each in statuses)
    runs: int = sum(each["durable"].get("orchestrations_completed", 0) for each in statuses)
    return min(ended, runs)


async def until_completed(
    sessions: Sessions,
    last_function: str,
    count: int,
    show: Callable[[int], None] = lambda _: None,
) -> None:
    """Wait until the hosts have completed `count` orders, and `show` each count on the way.

    Raises `TimeoutError`.
    """
    completed = 0
    try:
        async with asyncio.timeout(_PATIENCE):
            while (completed := await completed_orders(sessions, last_function)) < count:
                show(completed)
                await asyncio.sleep(_LOOK_EVERY * len(sessions))  # as many requests as to one host
    except TimeoutError:
        raise TimeoutError(f"{count - completed} orders were not completed within {_PATIENCE:g} s") from None
    show(completed)


async def read_figures(sessions: Sessions) -> Figures:
    """Read all counts, without access to tables or queues."""
    figures = await asyncio.gather(*map(_figures, sessions))
    return Figures(*map(sum, zip(*map(astuple, figures), strict=True)))


async def _figures(session: aiohttp.ClientSession) -> Figures:
    status = await _status(session)
    durable = status["durable"]
    async with session.get("/api/ops/figures") as answer:
        application = await answer.json()
    return Figures(
        transactions=application["table_storage"]["transactions"],
        operations=application["table_storage"]["operations"],
        reads=application["table_storage"]["reads"],
        messages=application["service_bus"]["messages"],
        episodes=durable.get("episodes_run", 0),
        activities=durable.get("activities_run", 0),
        executions=await _executions(session, status["functions"]),
    )


async def _executions(session: aiohttp.ClientSession, counters: Mapping[str, Mapping[str, int]]) -> int:
    """Count the executions of functions, without timers and the functions in `_OF_OTHERS`."""
    async with session.get("/admin/functions", raise_for_status=True) as answer:
        functions = await answer.json()
    timers = {
        each["name"]
        for each in functions
        for binding in each["config"]["bindings"]
        if binding["type"] == "timerTrigger"
    }
    ours = counters.keys() - timers - _OF_OTHERS
    return sum(counters[name]["started"] for name in ours)


async def history_events(session: aiohttp.ClientSession, tasks: Sequence[str], figures: Figures) -> int:
    """Count the events in the Durable history of tasks; `figures` are those of their orchestrations.

    The views of history omit each episode's start and end, and the scheduling of an activity.
    """
    shown = await asyncio.gather(*(_visible_events(session, task) for task in tasks))
    return sum(shown) + figures.episodes * _EVENTS_AN_EPISODE + figures.activities


async def _visible_events(session: aiohttp.ClientSession, task: str) -> int:
    found = {"instanceIdPrefix": f"{task}.", "showInput": "false"}
    async with session.get(_INSTANCES, params=found, raise_for_status=True) as answer:
        instances = [each["instanceId"] for each in await answer.json()]
    count = 0
    for instance in instances:
        shown = {"showHistory": "true", "showInput": "false"}
        async with session.get(f"{_INSTANCES}/{instance}", params=shown, raise_for_status=True) as answer:
            count += len((await answer.json())["historyEvents"])
    return count


async def _status(session: aiohttp.ClientSession) -> dict[str, Any]:
    async with session.get("/admin/host/status") as answer:
        status: dict[str, Any] = await answer.json()
    return status


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

    async def measure(self, phase: Phase, *, at_once: int, rate: float = math.inf) -> OrdersMeasured:
        """Submit `at_once` orders at the same time, or `rate` per second, until all are finished."""
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
