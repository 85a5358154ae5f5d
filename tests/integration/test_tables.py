"""The tables are created once, keep their number of shards, and record rejected messages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from azure.data.tables import TableServiceClient
from azure.data.tables.aio import TableClient

from functions.connections import Connection
from functions.pattern.errors import SettingsError, TransientError
from functions.pattern.request_figures import StoreFigures
from functions.store.connect import connect_at_start
from functions.store.entity_groups import EntityGroups
from functions.store.rejected import REJECTED_TABLE, TableRejectedMessages
from functions.store.tables import TASKS_TABLE, prepare_tables
from tests.fakes.clock import START, FakeClock
from tests.integration.processes import Process

pytestmark = pytest.mark.process

NAMES = (TASKS_TABLE, REJECTED_TABLE)


@pytest.fixture
def at_start(connection: Connection) -> Iterator[TableServiceClient]:
    """Connect as the application does when it starts, and delete the tables afterwards."""
    with connect_at_start(connection) as service:
        yield service
        for name in NAMES:
            service.delete_table(name)


def test_tables_are_created_once(at_start: TableServiceClient) -> None:
    """A second start finds them."""
    for _ in range(2):
        prepare_tables(at_start, NAMES, shards=16)
    assert set(NAMES) <= {table.name for table in at_start.list_tables()}


def test_other_number_of_shards_is_refused(at_start: TableServiceClient) -> None:
    """Tasks would be looked up in the wrong shards; the error names the setting and the fix."""
    prepare_tables(at_start, NAMES, shards=16)
    with pytest.raises(
        SettingsError, match=r"^setting STATE_SHARDS is 8, but the table has 16: set it to 16$"
    ):
        prepare_tables(at_start, NAMES, shards=8)
    prepare_tables(at_start, NAMES, shards=16)


def test_table_of_another_format_is_refused(at_start: TableServiceClient) -> None:
    """Before any row is misread; one line names the table, its format and what to do."""
    settings = {"PartitionKey": "!settings", "RowKey": "shards", "Shards": 16, "Format": 4}
    at_start.create_table(TASKS_TABLE).create_entity(settings)
    at_start.create_table(REJECTED_TABLE)
    with pytest.raises(SettingsError) as refusal:
        prepare_tables(at_start, NAMES, shards=16)
    assert str(refusal.value) == (
        "setting StateStore: the table Tasks holds rows of format 4, and this version reads"
        " format 1: finish its tasks with the version that wrote them, then set a new storage account or"
        " delete the tables (locally: python -m local reset)"
    )


# The SDK tests the truth value of an XML element when it reads a 403.
@pytest.mark.filterwarnings("ignore:Testing an element's truth value:DeprecationWarning")
def test_storage_that_does_not_answer_stops_the_start(connection: Connection) -> None:
    """With one line that names the setting."""
    address = str(connection.connection_string).replace("AccountKey=", "AccountKey=AAAA")
    with (
        connect_at_start(Connection(address, None, None)) as service,
        pytest.raises(SettingsError, match=r"^setting StateStore: Table Storage does not answer") as refusal,
    ):
        prepare_tables(service, NAMES, shards=16)
    assert "\n" not in str(refusal.value)


async def test_store_is_checked_by_reading(process: Process) -> None:
    """Every prepared table has the row with the number of shards; without it the check fails."""
    with pytest.raises(TransientError):
        await process.store.check()
    await process.table.create_entity({"PartitionKey": "!settings", "RowKey": "shards", "Shards": 1})
    await process.store.check()


async def test_rejected_message_is_recorded_once(table: TableClient, groups: EntityGroups) -> None:
    """It can be redelivered before it is completed."""
    rejected = TableRejectedMessages(table, groups, clock=FakeClock(), figures=StoreFigures())
    for _ in range(2):
        await rejected.reject("submissions", "m-1", b"{", "message: Invalid JSON")
    [row] = [row async for row in table.list_entities()]
    assert (row["Queue"], row["MessageID"], row["Body0"]) == ("submissions", "m-1", b"{")
    assert (row["Reason"], row["BodyBytes"], row["RejectedAt"]) == ("message: Invalid JSON", 1, START)


async def test_different_messages_are_recorded_separately(table: TableClient, groups: EntityGroups) -> None:
    """They differ by id, content or queue, whatever characters these contain."""
    rejected = TableRejectedMessages(table, groups, clock=FakeClock(), figures=StoreFigures())
    for queue, message_id, body in (
        ("submissions", "m-1", b"{"),
        ("submissions", "m-1", b"["),
        ("submissions", "m/2\\#?\t", b"{"),
        ("submissions/$deadletterqueue", "m-1", b"{"),
    ):
        await rejected.reject(queue, message_id, body, "why")
    assert len([row async for row in table.list_entities()]) == 4
