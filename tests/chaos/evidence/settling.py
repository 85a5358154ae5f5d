"""Waits until the platform has settled: every task finished and announced, every queue empty."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import aiohttp

from functions.core.derive import derive
from functions.storage.table_contract import StorageError
from tests.chaos.callers import REPLY_QUEUE, Callers
from tests.chaos.evidence.tables import Tables

_LOOK_EVERY = 3.0
_TIMEOUT = aiohttp.ClientTimeout(total=60)


async def settle(tables: Tables, admin: str, callers: Callers, within: float) -> tuple[float, Sequence[str]]:
    """Wait at most `within` seconds; return the seconds that it took, and a line for each leftover."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    async with aiohttp.ClientSession(admin, timeout=_TIMEOUT) as session:
        while True:
            unanswered = [f"{order}: its caller has no answer" for order in sorted(callers.waiting)]
            orders = [order.id for order in callers.orders]
            leftovers = [*unanswered, *await _in_tables(tables, orders), *await _in_queues(session)]
            seconds = loop.time() - start
            if not leftovers or seconds > within:
                return seconds, leftovers
            await asyncio.sleep(_LOOK_EVERY)


async def _in_tables(tables: Tables, orders: Collection[str]) -> list[str]:
    try:
        records, unsent = await tables.records(), await tables.unsent()
    except StorageError as error:
        return [f"the tables do not answer ({type(error).__name__})"]
    leftovers = [f"{order}: it has no task" for order in orders if order not in records]
    for task, record in records.items():
        if record.finished_at is None:
            state = f"{derive(record).state} in epoch {record.epoch}: {record.reason}"
            leftovers.append(f"{task}: {state}")
    return [*leftovers, *(f"message {key} is not sent" for key in unsent)]


async def _in_queues(session: aiohttp.ClientSession) -> list[str]:
    """Name the queues that hold messages, except the notices, which are read after the run."""
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
