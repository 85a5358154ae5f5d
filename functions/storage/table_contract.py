"""The operations on one table that the state store needs, their results, and their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

#: Property names and values. A row that was read also has `RowKey` and `odata.etag`.
type Row = Mapping[str, Any]

#: Operations of one entity group transaction (Table Storage).
MOST_OPERATIONS = 100
#: Bytes of the body of one entity group transaction: 4 MiB (Table Storage), less the headers of its parts.
MOST_BODY_BYTES = 4 * 1024 * 1024 - 64 * 1024

_CONFLICTS = frozenset({404, 409, 412})


class TransientStorageError(Exception):
    """The service failed or did not answer. It is not known whether the request was carried out."""


class UnwritableRowsError(Exception):
    """The service rejects the rows of one task permanently, for example because of their size."""


class CorruptRowError(Exception):
    """A row cannot be decoded. `row_key` names the row; the text holds no value of the row."""

    def __init__(self, row_key: str, reason: str) -> None:
        super().__init__(f"row {row_key}: {reason}")
        self.row_key, self.reason = row_key, reason


@dataclass(frozen=True, slots=True)
class RowChange:
    """The change of one row.

    `insert` requires that the row does not exist. `update` and `delete` require that it exists, with `etag`
    unless that is `*`. `update` and `upsert` replace the row.
    """

    kind: Literal["insert", "update", "upsert", "delete"]
    key: str
    row: Row | None = None
    etag: str = "*"


@dataclass(frozen=True, slots=True)
class RefusedChanges:
    """The service wrote nothing. `index` is the number of the refused change, if the service names it."""

    status: int
    text: str
    index: int | None = None

    @property
    def is_conflict(self) -> bool:
        """Return whether a row was not as expected."""
        return self.status in _CONFLICTS


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows in the order of their keys. `continuation` continues the query; None: there are no more rows."""

    rows: Sequence[Row]
    continuation: str | None = None


class Table(Protocol):
    """One table. Its methods raise `TransientStorageError`."""

    async def send(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none; return the ETags of the rows (empty for a deleted row)."""

    async def read(self, partition: str, key: str) -> Row | None:
        """Return one row, or None if it does not exist."""

    async def query(
        self,
        partition: str,
        first: str,
        end: str,
        *,
        beyond: str | None = None,
        most: int = 1000,
        continuation: str | None = None,
        columns: Sequence[str] = (),
        having: str | None = None,
    ) -> RowPage:
        """Read one page of the rows with keys from `first` to before `end`, and after `beyond` if given.

        A page has at most `most` rows (1,000). It may be short, or empty, although more rows follow.
        With `columns`, the rows have these columns and no ETag; a missing column is missing or None.
        With `having`, the page has only rows with this column, which is a text.
        """


#: The columns of a query that needs keys only.
KEYS = ("PartitionKey", "RowKey")


async def every_row(
    table: Table, partition: str, first: str, end: str, *, columns: Sequence[str] = ()
) -> tuple[list[Row], int]:
    """Return all rows with keys from `first` to before `end`, and the number of pages."""
    page = await table.query(partition, first, end, columns=columns)
    rows, pages = list(page.rows), 1
    while page.continuation is not None:
        page = await table.query(partition, first, end, continuation=page.continuation, columns=columns)
        rows += page.rows
        pages += 1
    return rows, pages
