"""The running host, shared by a module's tests: one app in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.host.processes import STARTED, Part, connection_string, start_host

#: The test app's settings, without its connection.
SETTINGS = {"TICK": "0 0 0 1 1 *", "MANY_QUEUE": "many", "AzureWebJobs.switched_off.Disabled": "true"}

#: A connection to a port where no broker listens; the host must run nevertheless.
WITHOUT_BROKER = {**SETTINGS, "Bus": connection_string(1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module's host keeps its state, log and traces."""
    return tmp_path_factory.mktemp("host")


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Kill processes that a failed test did not stop."""
    yield
    for process in STARTED:
        if process.returncode is None:
            process.kill()
    STARTED.clear()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(folder: Path) -> AsyncIterator[Part]:
    """Run the test app with no broker."""
    part = await start_host(folder, settings=WITHOUT_BROKER)
    yield part
    await part.stop()
