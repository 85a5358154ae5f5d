"""One Azurite for the session, with a separate table for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from azure.data.tables.aio import TableServiceClient

from functions.connections import Connection
from tests.integration.azurite import running_azurite


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def connection(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connection]:
    """Run Azurite, and yield its connection string."""
    async with running_azurite(tmp_path_factory.mktemp("azurite")) as connection_string:
        yield Connection(connection_string, None, None)


@pytest.fixture
async def service(connection: Connection) -> AsyncIterator[TableServiceClient]:
    """Return the client of all tables."""
    async with TableServiceClient.from_connection_string(connection.connection_string or "") as service:
        yield service
