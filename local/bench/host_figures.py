"""The counters of the application and of its hosts, summed over the hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import aiohttp

#: Seconds after which a phase counts as failed.
_PATIENCE = 300.0
_LOOK_EVERY = 0.05
_INSTANCES = "/runtime/webhooks/durabletask/instances"
#: History holds the start and the end of each episode, which no view of it shows.
_EVENTS_AN_EPISODE = 2
#: Functions that are called by who measures, and by Agents in place of remote services.
_OF_OTHERS = {"operations", "services"}


#: A session for each host.
type Sessions = Sequence[aiohttp.ClientSession]


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
    """Count the executions of functions, but for timers, and for what stands for others here."""
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

    What is shown of history leaves out each episode's start and end, and that an activity was scheduled.
    """
    shown = await asyncio.gather(*(_shown_events(session, task) for task in tasks))
    return sum(shown) + figures.episodes * _EVENTS_AN_EPISODE + figures.activities


async def _shown_events(session: aiohttp.ClientSession, task: str) -> int:
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
