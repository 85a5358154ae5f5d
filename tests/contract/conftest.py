"""One Azurite for the tests of the entity groups, with two tables for each."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from functions.connections import Connection
from functions.store.connect import TableStorage, connect
from tests.contract.table_pair import Pair
from tests.integration.azurite import running_azurite


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def connection_string(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Run Azurite, and yield its connection string."""
    async with running_azurite(tmp_path_factory.mktemp("azurite")) as connection_string:
        yield connection_string


@pytest.fixture
async def storage(connection_string: str) -> AsyncIterator[TableStorage]:
    """Connect as the application does."""
    async with connect(Connection(connection_string, None, None)) as storage:
        yield storage


@pytest.fixture
async def pair(storage: TableStorage) -> Pair:
    """Create two empty tables."""
    ours, theirs = [await storage.service.create_table(f"T{uuid.uuid4().hex}") for _ in range(2)]
    return Pair(storage.groups(ours.table_name), ours, theirs)
