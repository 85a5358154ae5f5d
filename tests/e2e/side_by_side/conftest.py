"""One platform for all tests here but one, which has its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.recovery.bench import Bench, bench_with
from tests.e2e.recovery.remote import RemoteService

_APP = Path(__file__).parent / "app"


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform."""
    async with running(tmp_path_factory.mktemp("side_by_side")) as bench:
        yield bench


@asynccontextmanager
async def running(data: Path) -> AsyncIterator[Bench]:
    """Run a platform whose Supervisor sweeps when a test asks for it: costs are those of the tasks alone."""
    async with RemoteService().serving() as remote:
        settings = {
            "SUPERVISOR_SCHEDULE": "0 0 0 1 1 *",
            "SKEW_SECONDS": "0.5",
            "STATE_SHARDS": "2",
            "HELD_URL": f"{remote.url}/held",
            "PAYMENT_URL": f"{remote.url}/paid",
            "PLAIN_URL": remote.url,
        }
        async with bench_with(remote, data, settings, app=_APP) as bench:
            yield bench
