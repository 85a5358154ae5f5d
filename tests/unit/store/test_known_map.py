"""The map of the shards as a process knows it, while its account is slow, or does not answer."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from azure.core.exceptions import ServiceResponseError
from azure.data.tables.aio import TableClient

from functions.pattern.errors import TransientError
from functions.pattern.request_figures import StoreFigures
from functions.store.known_map import KnownMap
from functions.store.shard_map import ShardMap, map_entity

MAP = ShardMap("this", (0, 1))


class FirstAccount:
    """The table that has the map; it answers when the test says so."""

    def __init__(self) -> None:
        self.reads = 0
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    async def get_entity(self, _partition: str, _row: str) -> dict[str, Any]:
        """Give the row of the map."""
        self.reads += 1
        return await self.answer

    def known_map(self) -> KnownMap:
        """Make what a process knows of the map."""
        return KnownMap(cast("TableClient", self), StoreFigures())


@pytest.fixture
async def account() -> FirstAccount:
    """Make an account that does not answer yet."""
    return FirstAccount()


async def test_nobody_waits_for_more_than_one_read_of_an_account_that_does_not_answer(
    account: FirstAccount,
) -> None:
    """One after the other, a hundred would wait for hours: each read lasts until its limits are reached."""
    known = account.known_map()
    asking = [asyncio.create_task(known.lease()) for _ in range(100)]
    await asyncio.sleep(0)
    account.answer.set_exception(ServiceResponseError("no answer"))
    faults = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(fault) for fault in faults} == {TransientError}
    assert account.reads == 1


async def test_map_is_read_again_after_a_fault(account: FirstAccount) -> None:
    """What failed is not remembered."""
    known = account.known_map()
    account.answer.set_exception(ServiceResponseError("no answer"))
    with pytest.raises(TransientError):
        await known.lease()
    account.answer = asyncio.get_running_loop().create_future()
    account.answer.set_result(map_entity(MAP))
    assert (await known.lease()).map == (await known.lease()).map == MAP
    assert account.reads == 2


async def test_who_gives_up_takes_the_answer_from_nobody(account: FirstAccount) -> None:
    """The read belongs to all who wait for it."""
    known = account.known_map()
    first, second = (asyncio.create_task(known.lease()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    account.answer.set_result(map_entity(MAP))
    assert (await second).map == MAP
    assert account.reads == 1
