"""The four roles as four hosts process orders and deliveries together, each with its own part of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus

import aiohttp
import pytest
import pytest_asyncio
from rich.console import Console

from local.callers.demo import run_demo
from local.platform import ANY_PORTS, PartName, Platform, PlatformOptions
from tests.e2e.caller import NEEDS_ORDERS, Caller

pytestmark = [
    pytest.mark.process,
    NEEDS_ORDERS,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    """Start a host for each role."""
    data = tmp_path_factory.mktemp("roles")
    shards = {"STATE_SHARDS": "4"}
    options = PlatformOptions(ports=ANY_PORTS.split(), data=data, settings=shards, in_memory_storage=True)
    async with Platform(options) as started:
        yield started


async def _status(address: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        return answer.status


async def test_four_roles_behave_like_one_application(platform: Platform) -> None:
    """Every outcome is as expected: a message or row out of a role's reach would be an error."""
    addresses = platform.addresses
    bus, console = addresses.service_bus_connection, Console(quiet=True)
    result = await run_demo(addresses.host, console, orders=6, deliveries=10, service_bus=bus)
    assert result.all_as_expected
    overview = "/api/ops/overview"
    assert await _status(f"{addresses.operators}{overview}") == HTTPStatus.OK
    assert await _status(f"{addresses.host}{overview}") == HTTPStatus.NOT_FOUND
    assert await _status(f"{addresses.operators}/api/health") == HTTPStatus.NOT_FOUND


async def test_front_takes_orders_while_no_other_role_runs(platform: Platform) -> None:
    """The other roles process the orders after their restart."""
    others = (PartName.SCHEDULER, PartName.AGENTS, PartName.SUPERVISOR)
    for part in others:
        await platform.kill(part)
    async with Caller.of(platform) as caller:
        assert await caller.put("o-1") == HTTPStatus.ACCEPTED
        for part in others:
            await platform.start(part)
        await caller.until_state("o-1", "Processed")
