"""Waits until the platform has settled: every task finished and announced, every queue empty."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import aiohttp
from azure.core.exceptions import AzureError

from tests.chaos.evidence.evidence import Settling
from tests.chaos.evidence.rows import names
from tests.chaos.evidence.tables import Tables
from tests.chaos.traffic.submitters import REPLY_QUEUE

_LOOK_EVERY = 3.0
_SHOWN = 5
_TIMEOUT = aiohttp.ClientTimeout(total=60)

#: Describes what is still to be done outside the tables and the queues.
type Pending = Callable[[], Sequence[str]]


async def settle(
    tables: Tables, admin: str, orders: Collection[str], pending: Pending, within: float
) -> Settling:
    """Wait until nothing is unfinished any more, for `within` seconds at most."""
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
    """Describe the unfinished orders, without those whose message was dead-lettered: they get no task."""
    try:
        tasks, rejected = await tables.look_at_all(), await tables.rejected()
    except AzureError as error:
        return [f"the tables do not answer ({type(error).__name__})"]
    unfinished = [order for order, rows in tasks.items() if not rows.is_finished]
    missing = [order for order in orders if order not in tasks and not names(rejected, order)]
    return [
        *([f"{len(missing)} orders have no task: {missing[:_SHOWN]}"] if missing else []),
        *([f"{len(unfinished)} tasks are unfinished: {unfinished[:_SHOWN]}"] if unfinished else []),
    ]


async def _in_queues(session: aiohttp.ClientSession) -> list[str]:
    """Describe the queues that hold messages, except the notices, which are read after the run."""
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
