"""One Azurite for the session."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from functions.connections import Connection
from tests.integration.azurite import running_azurite


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def connection(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connection]:
    """Run Azurite, and yield its connection string."""
    async with running_azurite(tmp_path_factory.mktemp("azurite")) as connection_string:
        yield Connection(connection_string, None, None)
