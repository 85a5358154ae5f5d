"""One platform and one browser for all tests of a process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.console.bench import PATIENCE, Console, browsing, running
from tests.e2e.recovery.bench import Bench

expect.set_options(timeout=PATIENCE)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform whose deliveries can be refused."""
    async with running(tmp_path_factory.mktemp("console")) as bench:
        yield bench


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Run a browser."""
    async with browsing() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def console(bench: Bench, browser: Browser) -> AsyncIterator[Console]:
    """Open a tab, of which the browser must have nothing to complain."""
    async with Console.of(browser, bench.platform.addresses.host) as console:
        yield console
        assert console.complaints == []


@pytest_asyncio.fixture(loop_scope="session")
async def phone(bench: Bench, browser: Browser) -> AsyncIterator[Console]:
    """Open a tab as wide as a phone, of which the browser must have nothing to complain."""
    async with Console.of(browser, bench.platform.addresses.host, width=390, height=844) as console:
        yield console
        assert console.complaints == []
