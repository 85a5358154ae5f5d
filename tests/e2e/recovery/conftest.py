"""One platform with a Supervisor for all tests of a process that need no other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.recovery.bench import Bench, running


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform whose Supervisor sweeps every second."""
    settings = {"SUPERVISOR_SCHEDULE": "* * * * * *", "PICK_UP_SECONDS": "8"}
    async with running(tmp_path_factory.mktemp("supervised"), settings) as bench:
        yield bench
