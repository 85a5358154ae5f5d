"""One row read by its key: what azure-data-tables gives of it, in one request."""

from __future__ import annotations

import pytest
from azure.core.exceptions import HttpResponseError
from azure.data.tables.aio import TableClient

from functions.store.connect import TableStorage
from functions.store.row_reads import RowReads
from tests.contract.table_pair import Pair

_COLUMNS = ("Digest", "Submitter")


@pytest.fixture
def reads(storage: TableStorage, pair: Pair) -> RowReads:
    """Read from the table that the pair calls ours."""
    return storage.rows(pair.ours.table_name)


@pytest.mark.parametrize("key", ["task-1|order", "a b|order", "größe|order", "注文|order"])
async def test_row_is_what_the_sdk_gives(reads: RowReads, pair: Pair, key: str) -> None:
    """Whatever must be quoted in its key."""
    table: TableClient = pair.ours
    await table.create_entity(
        {"PartitionKey": "p", "RowKey": key, "Digest": "abc", "Submitter": 'Zoë "Z" 注', "Other": b"1"}
    )
    theirs = dict(await table.get_entity("p", key, select=list(_COLUMNS)))
    assert await reads.read("p", key, _COLUMNS) == theirs


async def test_missing_row_is_none(reads: RowReads) -> None:
    """Which is no fault."""
    assert await reads.read("p", "nobody|order", _COLUMNS) is None


async def test_missing_table_is_a_fault(storage: TableStorage) -> None:
    """Nothing is known of the row then."""
    with pytest.raises(HttpResponseError, match="TableNotFound"):
        await storage.rows("Missing").read("p", "task-1|order", _COLUMNS)
