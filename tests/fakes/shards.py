"""The shards of a test, in one table."""

from __future__ import annotations

from unittest.mock import create_autospec

from azure.data.tables.aio import TableClient

from functions.store.entity_groups import EntityGroups
from functions.store.row_reads import RowReads
from functions.store.shards import Shards


def shards_in(
    table: TableClient,
    groups: EntityGroups | None = None,
    row_reads: RowReads | None = None,
    *,
    shards: int = 1,
) -> Shards:
    """Return the shards of a table; a test may leave out the clients that it does not use."""
    groups, row_reads = groups or create_autospec(EntityGroups), row_reads or create_autospec(RowReads)
    return Shards(table, groups, row_reads, shards)
