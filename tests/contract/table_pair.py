"""The same operations on two tables, by our entity groups and by those of azure-data-tables, and compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import TableTransactionError, UpdateMode
from azure.data.tables.aio import TableClient

from functions.store.entity_groups import EntityGroups
from functions.store.group_format import GroupRefused, GroupWritten, Operation, Row

type Etags = Mapping[str, str]


@dataclass(frozen=True)
class Pair:
    """Two tables with the same rows: one is written by us, the other by the SDK."""

    groups: EntityGroups
    ours: TableClient
    theirs: TableClient

    async def fill(self, *rows: Row) -> None:
        """Create rows in both."""
        for table in (self.ours, self.theirs):
            for row in rows:
                await table.create_entity({"PartitionKey": "p", **row})

    async def check(self, make: Callable[[Etags], Sequence[Operation]], partition: str = "p") -> Any:
        """Send the same operations by both, compare answers and rows, and return our answer."""
        operations = make(await etags_of(self.ours))
        ours = await self.groups.send(partition, operations)
        theirs = await by_sdk(self.theirs, partition, make(await etags_of(self.theirs)))
        if isinstance(ours, GroupWritten):
            assert isinstance(theirs, GroupWritten)
            etags = await etags_of(self.ours)
            assert list(ours.etags) == [etags.get(each.entity["RowKey"], "") for each in operations]
        else:
            assert ours == theirs
        assert await rows_of(self.ours) == await rows_of(self.theirs)
        return ours


async def by_sdk(
    table: TableClient, partition: str, operations: Sequence[Operation]
) -> GroupWritten | GroupRefused:
    """Send a group by the SDK."""
    try:
        answers = await table.submit_transaction(_wire(partition, each) for each in operations)
    except TableTransactionError as error:
        refusal: Any = error
        named = re.match(r"\d+:", refusal.message)  # the SDK's own index is 0 when there is none
        return GroupRefused(refusal.status_code, refusal.error_code, refusal.index if named else None)
    return GroupWritten(tuple(each.get("etag", "") for each in answers))


def _wire(partition: str, operation: Operation) -> tuple[str, dict[str, Any], dict[str, Any]]:
    row = {"PartitionKey": partition, **operation.entity}
    options: dict[str, Any] = {"mode": UpdateMode.REPLACE} if operation.kind in {"update", "upsert"} else {}
    if operation.etag != "*":
        options |= {"etag": operation.etag, "match_condition": MatchConditions.IfNotModified}
    return operation.kind, row, options


async def etags_of(table: TableClient) -> Etags:
    """Read the ETags by row key."""
    return {row["RowKey"]: str(row.metadata["etag"]) async for row in table.list_entities()}


async def rows_of(table: TableClient) -> Mapping[str, Mapping[str, str]]:
    """Read all rows; `repr` tells types apart, and shows that two are not a number."""
    return {
        row["RowKey"]: {name: repr(value) for name, value in row.items()}
        async for row in table.list_entities()
    }
