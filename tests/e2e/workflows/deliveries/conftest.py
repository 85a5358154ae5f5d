"""One platform for all tests of a process that need no other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.deliveries import STEPS, running
from tests.e2e.recovery.bench import Bench


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run the product's application; each step may take 6 seconds, after which it is recovered."""
    settings = {"STEP_SECONDS": ",".join(f"delivery.{step}=6" for step in STEPS)}
    async with running(tmp_path_factory.mktemp("deliveries"), settings) as bench:
        yield bench
