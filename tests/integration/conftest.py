"""One Azurite for the session, with a separate table for each test."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio
from azure.data.tables.aio import TableClient, TableServiceClient

from functions.connections import Connection
from functions.pattern.request_figures import StoreFigures
from functions.store import connect
from functions.store.entity_groups import EntityGroups
from functions.store.retention import TableTaskRetention
from tests.fakes.shards import shards_in
from tests.integration.azurite import running_azurite
from tests.integration.processes import Process

MakeProcess = Callable[[], Process]


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def connection(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connection]:
    """Run Azurite, and yield its connection string."""
    async with running_azurite(tmp_path_factory.mktemp("azurite")) as connection_string:
        yield Connection(connection_string, None, None)


@pytest.fixture
async def storage(connection: Connection) -> AsyncIterator[connect.TableStorage]:
    """Connect as the application does."""
    async with connect.connect(connection) as storage:
        yield storage


@pytest.fixture
def service(storage: connect.TableStorage) -> TableServiceClient:
    """Return the client of all tables."""
    return storage.service


@pytest.fixture
async def table(service: TableServiceClient) -> TableClient:
    """Create a table for this test only."""
    return await service.create_table(f"T{uuid.uuid4().hex}")


@pytest.fixture
def groups(storage: connect.TableStorage, table: TableClient) -> EntityGroups:
    """Send entity groups to the test's table."""
    return storage.groups(table.table_name)


@pytest.fixture
def retention(table: TableClient, groups: EntityGroups) -> TableTaskRetention:
    """Create the deletion of tasks for the test's table."""
    return TableTaskRetention(shards_in(table, groups), StoreFigures())


@pytest.fixture
def make_process(storage: connect.TableStorage, table: TableClient, groups: EntityGroups) -> MakeProcess:
    """Return a factory of processes that share the test's table."""
    return lambda: Process(table, groups, storage.rows(table.table_name))


@pytest.fixture
def process(make_process: MakeProcess) -> Process:
    """Create one process on the test's table."""
    return make_process()
