"""The operations on one table that the state store needs, their results, and their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Any, Literal, Protocol

#: Property names and values. A row that was read also has `RowKey` and `odata.etag`.
type Row = Mapping[str, Any]

#: Operations of one entity group transaction (Table Storage).
MOST_OPERATIONS = 100
#: Bytes of the body of one entity group transaction: 4 MiB (Table Storage), less the headers of its parts.
MOST_BODY_BYTES = 4 * 1024 * 1024 - 64 * 1024


class StorageError(Exception):
    """A task or a row cannot be read or written."""


class TransientStorageError(StorageError):
    """The service failed or did not answer. It is not known whether the request was carried out."""


class ReservedError(TransientStorageError):
    """The id of a new task is reserved for an order."""


class NoSuchTaskError(StorageError):
    """No task is recorded under this id."""


class UnwritableRowsError(StorageError):
    """The service rejects the rows of one task permanently, for example because of their size."""


class CorruptRowError(StorageError):
    """A row cannot be decoded. `row_key` names the row; the text holds no value of the row."""

    def __init__(self, row_key: str, reason: str) -> None:
        super().__init__(f"row {row_key}: {reason}")
        self.row_key, self.reason = row_key, reason


@dataclass(frozen=True, slots=True)
class RowChange:
    """The change of one row. `update` and `upsert` replace the row, `merge` only the given columns.

    `insert` requires that it does not exist, `update` and `delete` that it exists with `etag` (`*`: any).
    """

    kind: Literal["insert", "update", "upsert", "merge", "delete"]
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
        return self.status in {404, 409, 412}


@dataclass(frozen=True, slots=True)
class RowQuery:
    """The rows of a partition with keys from `first` to before `end`, and after `beyond` if it is set.

    A page has at most `most` rows (1,000); it may be short or empty although more follow (`continuation`).
    With `columns`, rows have only these and no ETag. With `having`, all rows have this column, a text.
    """

    first: str
    end: str
    beyond: str | None = None
    most: int = 1000
    continuation: str | None = None
    columns: Sequence[str] = ()
    having: str | None = None


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

    async def query(self, partition: str, query: RowQuery) -> RowPage:
        """Read one page."""


async def write(table: Table, partition: str, changes: Sequence[RowChange]) -> bool:
    """Write all changes or none; return False if a row was not as expected. Raises `StorageError`."""
    answer = await table.send(partition, changes)
    if isinstance(answer, RefusedChanges) and not answer.is_conflict:
        raise StorageError(f"row {changes[0].key}: HTTP {answer.status} {answer.text}")
    return not isinstance(answer, RefusedChanges)


async def delete_rows(table: Table, partition: str, groups: Sequence[Sequence[str]]) -> int:
    """Delete groups of at most two keys, and return the number of deleted groups. Raises `StorageError`."""
    deleted = 0
    for some in batched(groups, MOST_OPERATIONS // 2, strict=False):
        changes = [RowChange("delete", key) for keys in some for key in keys]
        if isinstance(await table.send(partition, changes), RefusedChanges):
            break  # another instance deletes them at this moment
        deleted += len(some)
    return deleted
