"""A table of the real Azurite for each test, as the new state store reaches it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
from azure.data.tables.aio import TableServiceClient

from functions.connections import Connection
from functions.storage.azure_table import AzureTable, StorageSession


@pytest.fixture
async def session(connection: Connection) -> AsyncIterator[StorageSession]:
    """Open a session with the key of the account."""
    async with StorageSession.of_connection_string(connection.connection_string or "") as session:
        yield session


@pytest.fixture
async def azure_table(connection: Connection, session: StorageSession) -> AzureTable:
    """Create a table for this test only."""
    name = f"T{uuid.uuid4().hex}"
    async with TableServiceClient.from_connection_string(connection.connection_string or "") as service:
        await service.create_table(name)
    return AzureTable(session, name)
