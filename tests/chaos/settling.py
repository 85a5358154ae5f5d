"""Waits until the platform has come to rest: every task at its end, everything told, every queue empty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import aiohttp
from azure.core.exceptions import AzureError

from tests.chaos.callers import REPLY_QUEUE
from tests.chaos.evidence import Settling
from tests.chaos.rows import names
from tests.chaos.tables import Tables

_LOOK_EVERY = 1.0
_SHOWN = 5
_TIMEOUT = aiohttp.ClientTimeout(total=5)

#: Names what is still under way outside the tables and the queues.
type Pending = Callable[[], Sequence[str]]


async def settle(
    tables: Tables, admin: str, orders: Collection[str], pending: Pending, within: float
) -> Settling:
    """Wait until nothing is under way any more, for `within` seconds at most."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    async with aiohttp.ClientSession(admin, timeout=_TIMEOUT) as session:
        while True:
            leftovers = [*pending(), *await _in_tables(tables, orders), *await _in_queues(session)]
            seconds = loop.time() - start
            if not leftovers or seconds > within:
                return Settling(seconds=seconds, leftovers=leftovers)
            await asyncio.sleep(_LOOK_EVERY)


async def _in_tables(tables: Tables, orders: Collection[str]) -> list[str]:
    """Name the orders that are under way, but not those whose message died: they never will be."""
    try:
        tasks, rejected = await tables.tasks(), await tables.rejected()
    except AzureError as error:
        return [f"the tables do not answer ({type(error).__name__})"]
    unfinished = [order for order, rows in tasks.items() if not rows.is_finished]
    missing = [order for order in orders if order not in tasks and not names(rejected, order)]
    return [
        *([f"{len(missing)} orders have no task: {missing[:_SHOWN]}"] if missing else []),
        *([f"{len(unfinished)} tasks are under way: {unfinished[:_SHOWN]}"] if unfinished else []),
    ]


async def _in_queues(session: aiohttp.ClientSession) -> list[str]:
    """Name the queues that hold messages, but for the notices, which wait for their reader."""
    async with session.get("/queues", raise_for_status=True) as answer:
        queues = await answer.json()
    leftovers = []
    for queue in queues:
        waiting = queue["dead_lettered"]
        if queue["name"] != REPLY_QUEUE:
            waiting += queue["active"] + queue["scheduled"] + queue["deferred"]
        if waiting:
            leftovers.append(f"queue {queue['name']} holds {waiting} messages")
    return leftovers
