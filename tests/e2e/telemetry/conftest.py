"""One platform whose telemetry the tests receive, for all tests of traces that need no other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.deliveries import running
from tests.e2e.recovery.bench import Bench
from tests.e2e.telemetry.receiver import Receiver

#: Export spans and records soon (milliseconds).
EXPORT_SETTINGS = {
    "OTEL_BSP_SCHEDULE_DELAY": "200",
    "OTEL_BLRP_SCHEDULE_DELAY": "200",
    "OTEL_METRIC_EXPORT_INTERVAL": "1000",
}


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def receiver() -> AsyncIterator[Receiver]:
    """Receive telemetry."""
    async with Receiver().serving() as receiver:
        yield receiver


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> AsyncIterator[Bench]:
    """Run the tests' deliveries with scripted services."""
    settings = {**EXPORT_SETTINGS, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}
    async with running(tmp_path_factory.mktemp("telemetry"), settings) as bench:
        yield bench
