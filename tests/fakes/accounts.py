"""The shards of a test, in one account's table."""

from __future__ import annotations

from unittest.mock import create_autospec

from azure.data.tables.aio import TableClient

from functions.store.entity_groups import EntityGroups
from functions.store.row_reads import RowReads
from functions.store.shards import Shards, StateAccount


def one_account(
    table: TableClient,
    groups: EntityGroups | None = None,
    row_reads: RowReads | None = None,
    *,
    shards: int = 1,
) -> Shards:
    """Give shards that lie in one table; what the test does not need may be left out."""
    account = StateAccount(
        table, groups or create_autospec(EntityGroups), row_reads or create_autospec(RowReads)
    )
    return Shards((account,), shards)
