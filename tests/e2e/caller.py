"""A caller of the running application, and the contents of its tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from functions.workflows.registry import FOLDERS
from local.callers.client import SAMPLE_ORDER
from local.platform import ANY_PORTS, Platform, PlatformOptions

#: For tests that submit orders to the application as it is, and so need this sample workflow.
NEEDS_ORDERS = pytest.mark.skipif("orders" not in FOLDERS, reason="the workflow `orders` is removed")

ORDER = SAMPLE_ORDER

#: Seconds to wait for an order: more than any machine needs to finish one.
PATIENCE = 90.0
_LOOK_EVERY = 0.1


@asynccontextmanager
async def running(
    data: Path, settings: Mapping[str, str] | None = None, *, hosts: int = 1
) -> AsyncIterator[Platform]:
    """Run the whole platform with its own data folder and ports."""
    chosen = {"STATE_SHARDS": "4", **(settings or {})}
    ports = ANY_PORTS.with_hosts(hosts)
    options = PlatformOptions(ports=ports, data=data, settings=chosen, in_memory_storage=True)
    async with Platform(options) as platform:
        yield platform


class Caller:
    """Submits and reads orders over HTTP."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    @classmethod
    @asynccontextmanager
    async def of(cls, platform: Platform) -> AsyncIterator[Caller]:
        """Call the application of a platform."""
        connector = aiohttp.TCPConnector(limit=50)
        async with aiohttp.ClientSession(platform.addresses.host, connector=connector) as session:
            yield cls(session)

    async def put(self, order_id: str, order: Mapping[str, Any] = ORDER) -> int:
        """Submit an order under the given id, and return the status."""
        async with self.session.put(f"/api/orders/{order_id}", json=order) as answer:
            return answer.status

    async def submit_with_retries(self, order_id: str) -> None:
        """Submit an order, and retry until it is accepted, as a caller does during an outage."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    if await self.put(order_id) == HTTPStatus.ACCEPTED:
                        return
                except aiohttp.ClientError:
                    pass  # the host is down
                await asyncio.sleep(_LOOK_EVERY)

    async def look_at(self, order_id: str) -> dict[str, Any] | None:
        """Read an order; None if there is none."""
        async with self.session.get(f"/api/orders/{order_id}") as answer:
            if answer.status == HTTPStatus.NOT_FOUND:
                return None
            order: dict[str, Any] = await answer.json()
            return order

    async def until(self, order_id: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Poll an order until a condition holds. Raises `TimeoutError`."""
        async with asyncio.timeout(PATIENCE):
            while True:
                order = await self.look_at(order_id)
                if order is not None and wanted(order):
                    return order
                await asyncio.sleep(_LOOK_EVERY)

    async def until_state(self, order_id: str, state: str) -> dict[str, Any]:
        """Poll an order until it is in `state`."""
        return await self.until(order_id, lambda order: order["state"] == state)


def rows(
    platform: Platform, table: str, query: str | None = None, columns: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Read a table directly, not through the application; all columns if none is named."""
    connection = platform.addresses.storage_connection
    with TableServiceClient.from_connection_string(connection) as service:
        client = service.get_table_client(table)
        select = list(columns) or None
        found = (
            client.list_entities(select=select)
            if query is None
            else client.query_entities(query, select=select)
        )
        return [dict(row) for row in found]


async def send(platform: Platform, queue: str, *messages: ServiceBusMessage) -> None:
    """Put messages on a queue in one batch, so that they arrive together."""
    connection = platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender(queue) as sender,
    ):
        await sender.send_messages(list(messages))


async def rejected(platform: Platform) -> list[dict[str, Any]]:
    """Read the descriptions of all rejected messages."""
    found = await asyncio.to_thread(rows, platform, "Rejected", None, ["RowKey", "Facts"])
    return [json.loads(row["Facts"]) for row in found if not row["RowKey"].startswith("!")]


async def until_all_are(
    state: str, platform: Platform, order_ids: set[str], *, patience: float = PATIENCE
) -> None:
    """Wait until exactly these tasks are in the store, all in `state`.

    The timeout applies to each further task, not to all tasks together.
    """
    now = asyncio.get_running_loop().time
    wanted = dict.fromkeys(order_ids, state)
    there, since = 0, now()
    while (found := await asyncio.to_thread(_states, platform)) != wanted:
        before, there = there, sum(each == state for each in found.values())
        since = now() if there > before else since
        assert now() - since < patience, _differences(found, wanted)
        await asyncio.sleep(0.5 + len(found) / 1_000)


def _differences(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    states = {order: found.get(order, "not recorded") for order in {*wanted, *found}}
    different = [f"{order}: {state}" for order, state in states.items() if wanted.get(order) != state]
    return f"{len(different)} of {len(wanted)} are not as wanted: {different[:10]}"


def _states(platform: Platform) -> dict[str, str]:
    """Return the state of every task in the store."""
    found = rows(platform, "Tasks", "ProcessState ne ''", ["RowKey", "OrderID", "ProcessState"])
    return {row["OrderID"]: row["ProcessState"] for row in found if row["RowKey"].endswith("|task")}
