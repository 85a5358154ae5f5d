"""One platform and one browser for all tests of a process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.e2e.console.bench import PATIENCE, Bench, Console, running
from tests.e2e.console.browser import BrowserNotFoundError, browsing

expect.set_options(timeout=PATIENCE)


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform whose deliveries can be refused."""
    async with running(tmp_path_factory.mktemp("console")) as bench:
        yield bench


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Run a browser. If there is none, the tests are skipped; in continuous integration they fail."""
    try:
        async with browsing() as browser:
            yield browser
    except BrowserNotFoundError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest_asyncio.fixture(loop_scope="session")
async def console(browser: Browser, bench: Bench) -> AsyncIterator[Console]:
    """Open a tab; the browser must report no error in it."""
    async with Console.of(browser, bench.platform.addresses.host) as console:
        yield console
        assert console.complaints == []


@pytest_asyncio.fixture(loop_scope="session")
async def phone(browser: Browser, bench: Bench) -> AsyncIterator[Console]:
    """Open a tab as wide as a phone; the browser must report no error in it."""
    async with Console.of(browser, bench.platform.addresses.host, width=390, height=844) as console:
        yield console
        assert console.complaints == []


@pytest_asyncio.fixture(
    loop_scope="session",
    params=[(1280, "light"), pytest.param((390, "dark"), marks=pytest.mark.night)],
    ids=["desktop, light", "phone, dark"],
)
async def tab(request: pytest.FixtureRequest, browser: Browser, bench: Bench) -> AsyncIterator[Console]:
    """Open a tab of each kind in turn; the browser must report no error in it."""
    width, scheme = request.param
    async with Console.of(browser, bench.platform.addresses.host, width=width, scheme=scheme) as console:
        yield console
        assert console.complaints == []
