"""One platform for all tests of a process that need no other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.recovery.bench import Bench
from tests.e2e.workflows.deliveries.bench import running


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run the product's application with scripted services."""
    async with running(tmp_path_factory.mktemp("deliveries"), {}) as bench:
        yield bench
