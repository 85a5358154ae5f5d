"""Writes many rows into a table, a hundred at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import batched

from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupWritten, Operation, Row
from functions.store.transactions import MOST_OPERATIONS

_AT_ONCE = 4


async def create_rows(groups: EntityGroups, partitions: Iterable[Iterable[Row]]) -> None:
    """Create rows in several partitions; none of them may exist yet."""
    sent = (rows for partition in partitions for rows in batched(partition, MOST_OPERATIONS, strict=False))

    async def write() -> None:
        for rows in sent:
            operations = [Operation("create", row) for row in rows]
            assert isinstance(await groups.send(rows[0]["PartitionKey"], operations), GroupWritten)

    await asyncio.gather(*(write() for _ in range(_AT_ONCE)))
