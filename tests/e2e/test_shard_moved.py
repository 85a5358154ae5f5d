"""A shard is moved while orders keep coming and parts are killed: every order ends, and is paid, once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from azure.data.tables import TableClient
from azure.data.tables.aio import TableClient as AsyncTableClient

from functions.store.shard_move import LATEST, ShardMove
from local.platform import ANY_PORTS, Addresses, PartName, Platform, PlatformOptions, azurite_alone
from local.platform.blueprint import Stages, whole_platform
from tests.e2e.caller import NEEDS_ORDERS, Caller, rows

pytestmark = [pytest.mark.process, NEEDS_ORDERS, pytest.mark.timeout(420)]

_SHARDS = 4
#: Seconds between two orders.
_PACE = 0.25
#: After a kill: the step's limit (60 s), the skew (5 s), a sweep interval (30 s), and its run.
_BOUND = 180


async def test_shard_is_moved_under_load_while_command_and_host_are_killed(tmp_path: Path) -> None:
    """Both by `kill -9` while the shard is closed; then the command is run again."""
    async with _over_two_accounts(tmp_path) as (platform, accounts), Caller.of(platform) as caller:
        tables = [TableClient.from_connection_string(each, "Tasks") for each in accounts]
        orders, enough = set[str](), asyncio.Event()
        submitting = asyncio.create_task(_submit(caller, orders, enough))
        await _until(lambda: bool(_rows_of_first_shard(tables[0])))
        await _move_and_be_killed(accounts, tables[0])
        moving = asyncio.create_task(_move_again(accounts))
        await platform.kill(PartName.HOST)
        await platform.start(PartName.HOST)
        await moving
        before = len(orders)
        await _until(lambda: len(orders) > before + 10)
        enough.set()
        await submitting
        await _until(lambda: _states(tables) == dict.fromkeys(orders, "Processed"))
        assert _rows_of_first_shard(tables[0]) == []
        assert _rows_of_first_shard(tables[1])
        payments = [row["RowKey"].partition(".")[0] for row in rows(platform, "Payments")]
        assert sorted(payments) == sorted(orders)


@asynccontextmanager
async def _over_two_accounts(folder: Path) -> AsyncIterator[tuple[Platform, list[str]]]:
    """Run the platform with a second Azurite; give it, and how the accounts are reached."""
    options = PlatformOptions(ports=ANY_PORTS, data=folder / "data", in_memory_storage=True)
    async with Platform(replace(options, data=folder / "other"), azurite_alone) as other:
        second = other.addresses.storage_connection

        def over_both(options: PlatformOptions, addresses: Addresses) -> Stages:
            accounts = {"StateStore__0": addresses.storage_connection, "StateStore__1": second}
            return whole_platform(
                replace(options, settings={**accounts, "STATE_SHARDS": str(_SHARDS)}), addresses
            )

        async with Platform(options, over_both) as platform:
            yield platform, [platform.addresses.storage_connection, second]


async def _submit(caller: Caller, orders: set[str], enough: asyncio.Event) -> None:
    """Submit orders at an even pace, none waiting for another, until there are enough."""
    async with asyncio.TaskGroup() as group:
        while not enough.is_set():
            order = f"order-{len(orders)}"
            orders.add(order)
            group.create_task(caller.submit_with_retries(order))
            await asyncio.sleep(_PACE)


async def _move_and_be_killed(accounts: list[str], first: TableClient) -> None:
    """Run the command until the shard is closed, and kill it."""
    numbered = {f"StateStore__{number}": account for number, account in enumerate(accounts)}
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "local.move_shard", "0", "1"), env={**os.environ, **numbered}
    )
    await _until(lambda: "Moving" in first.get_entity("!settings", "shard-map"))
    command.kill()
    await command.wait()


async def _move_again(accounts: list[str]) -> None:
    """Do what the command does, but for the wait after which what is left there is deleted."""

    async def pause(seconds: float) -> None:
        await asyncio.sleep(0 if seconds == LATEST else seconds)

    async with AsyncExitStack() as stack:
        clients = (AsyncTableClient.from_connection_string(each, "Tasks") for each in accounts)
        tables = [await stack.enter_async_context(client) for client in clients]
        await ShardMove(tables, pause=pause).move(0, 1)


def _rows_of_first_shard(table: TableClient) -> list[Any]:
    return list(table.query_entities("PartitionKey eq '000'", select=["RowKey"]))


def _states(tables: list[TableClient]) -> dict[str, str]:
    """Give the state of every task, wherever it lies."""
    found = (row for table in tables for row in table.query_entities("ProcessState ne ''"))
    return {row["OrderID"]: row["ProcessState"] for row in found if row["RowKey"].endswith("|task")}


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(_BOUND):
        while not await asyncio.to_thread(true):
            await asyncio.sleep(0.2)
