"""A table of the real Azurite for each test, as the new state store reaches it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables.aio import TableServiceClient

from functions.connections import Connection
from functions.storage.azure_table import AzureTable, StorageSession


@pytest.fixture
async def azure_table(connection: Connection) -> AsyncIterator[AzureTable]:
    """Create a table for this test only; azure-data-tables reads the connection string."""
    name = f"T{uuid.uuid4().hex}"
    async with TableServiceClient.from_connection_string(connection.connection_string or "") as service:
        await service.create_table(name)
        assert isinstance(service.credential, AzureNamedKeyCredential)
        async with aclosing(StorageSession(service.url, service.credential)) as session:
            yield AzureTable(session, name)
