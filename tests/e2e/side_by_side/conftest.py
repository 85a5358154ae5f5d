"""One platform for all tests here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.recovery.bench import Bench, bench_with
from tests.e2e.recovery.remote import RemoteService

_APP = Path(__file__).parent / "app"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform whose Supervisor sweeps when a test asks for it: costs are those of the tasks alone."""
    async with RemoteService().serving() as remote:
        settings = {
            "SUPERVISOR_SCHEDULE": "0 0 0 1 1 *",
            "SKEW_SECONDS": "0.5",
            "STATE_SHARDS": "2",
            "HELD_URL": f"{remote.url}/held",
            "PAYMENT_URL": f"{remote.url}/paid",
            "PLAIN_URL": remote.url,
            "BRIEF_URL": remote.url,
        }
        async with bench_with(remote, tmp_path_factory.mktemp("wide"), settings, app=_APP) as bench:
            yield bench
