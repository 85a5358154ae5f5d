"""One table in memory with the rules and the faults of Table Storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any

from functions.storage.azure_table import transaction_body
from functions.storage.table_contract import (
    MOST_OPERATIONS,
    RefusedChanges,
    Row,
    RowChange,
    RowPage,
    RowQuery,
    TransientStorageError,
)

_MOST_BODY_BYTES = 4 * 1024 * 1024
_MOST_ROW_BYTES = 1024 * 1024
_MOST_PROPERTY_BYTES = 64 * 1024
_MOST_PROPERTIES = 252


class TableFault(Enum):
    """A fault of one request."""

    NOT_SENT = auto()
    NO_ANSWER = auto()
    #: The answer is lost, and the request is carried out after `late_by` seconds.
    LATE = auto()
    #: The client repeats the request after its answer was lost.
    REPEATED = auto()


class SimulatedTable:
    """Rows by partition and key.

    `fault` returns the fault of the next transaction, `read_fault` whether the next read fails. Each request
    takes `seconds`. `before_send` is called before each transaction. With `begins_empty`, the first page of
    each query is empty, as at the end of a key range.
    """

    def __init__(self, *, page: int = 1000, seconds: float = 0, names_rows: bool = True) -> None:
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.page = page
        self.seconds = seconds
        self.late_by = 5.0
        self.names_rows = names_rows
        self.begins_empty = False
        self.transactions: list[Sequence[RowChange]] = []
        self.reads = 0
        self.fault: Callable[[], TableFault | None] = lambda: None
        self.read_fault: Callable[[], bool] = lambda: False
        self.before_send: Callable[[Sequence[RowChange]], None] = lambda _changes: None
        self.before_read: Callable[[], None] = lambda: None
        self._versions = 0

    def fail_next(self, *faults: TableFault | None) -> None:
        """Set the faults of the next transactions."""
        left = list(faults)
        self.fault = lambda: left.pop(0) if left else None

    async def send(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none."""
        await asyncio.sleep(self.seconds)
        self.before_send(changes)
        fault = self.fault()
        if fault is TableFault.LATE:
            asyncio.get_running_loop().call_later(self.late_by, self.write, partition, changes)
        elif fault is not TableFault.NOT_SENT:
            answer = self.write(partition, changes)
            if fault is TableFault.REPEATED:
                answer = self.write(partition, changes)
            if fault is not TableFault.NO_ANSWER:
                await asyncio.sleep(self.seconds)
                return answer
        raise TransientStorageError(f"simulated: {fault}")

    async def read(self, partition: str, key: str) -> Row | None:
        """Return one row."""
        await self._start_read()
        return self.rows.get((partition, key))

    async def query(self, partition: str, query: RowQuery) -> RowPage:
        """Read one page; the continuation is the next key."""
        await self._start_read()
        start = max(query.first, query.continuation or "", query.beyond or "")
        if self.begins_empty and query.continuation is None:
            return RowPage([], start)
        keys = sorted(
            key
            for place, key in self.rows
            if place == partition and start <= key < query.end and key != query.beyond
        )
        return self._page_of(partition, keys, query)

    def _page_of(self, partition: str, keys: Sequence[str], query: RowQuery) -> RowPage:
        """Return the first page of a query that finds the rows of some keys."""
        size = min(query.most, self.page)
        rows = [self.rows[partition, key] for key in keys[:size]]
        if query.having is not None:
            rows = [row for row in rows if row.get(query.having)]
        if query.columns:
            rows = [{name: row[name] for name in query.columns if name in row} for row in rows]
        return RowPage(rows, keys[size] if len(keys) > size else None)

    def write(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none, at once."""
        self.transactions.append(changes)
        refused = self._refusal(partition, changes)
        if refused is not None:
            return refused if self.names_rows else RefusedChanges(refused.status, refused.text)
        etags = []
        for change in changes:
            place = partition, change.key
            if change.kind == "delete":
                del self.rows[place]
                etags.append("")
                continue
            self._versions += 1
            etag = f'W/"{self._versions}"'
            etags.append(etag)
            row = {name: each for name, each in (change.row or {}).items() if "@" not in name}
            row = {**self.rows.get(place, {}), **row} if change.kind == "merge" else row
            self.rows[place] = {**row, "PartitionKey": partition, "RowKey": change.key, "odata.etag": etag}
        return etags

    def keys(self, start: str = "") -> list[str]:
        """Return the keys that start with a text."""
        return sorted(key for _, key in self.rows if key.startswith(start))

    def _refusal(  # noqa: PLR0911 - one for each rule of the service
        self, partition: str, changes: Sequence[RowChange]
    ) -> RefusedChanges | None:
        if len(changes) > MOST_OPERATIONS or len({each.key for each in changes}) != len(changes):
            return RefusedChanges(400, "InvalidInput")
        try:
            body = transaction_body("http://account/Tasks", partition, changes)
        except ValueError:
            return RefusedChanges(400, "InvalidInput")
        if len(body) > _MOST_BODY_BYTES:
            return RefusedChanges(413, "RequestBodyTooLarge")
        for number, change in enumerate(changes):
            row = self.rows.get((partition, change.key))
            if not change.key.isprintable() or set(change.key) & set("/\\#?"):
                return RefusedChanges(400, "OutOfRangeInput", number)
            if change.kind == "insert" and row is not None:
                return RefusedChanges(409, "EntityAlreadyExists", number)
            if change.kind in {"update", "delete"} and row is None:
                return RefusedChanges(404, "ResourceNotFound", number)
            if row is not None and change.etag not in {"*", row["odata.etag"]}:
                return RefusedChanges(412, "UpdateConditionNotSatisfied", number)
            merged = row if row is not None and change.kind == "merge" else {}
            code = _oversized({**merged, **(change.row or {})})
            if code is not None:
                return RefusedChanges(400, code, number)
        return None

    async def _start_read(self) -> None:
        self.reads += 1
        await asyncio.sleep(self.seconds)
        self.before_read()
        if self.read_fault():
            raise TransientStorageError("simulated: read")


def _oversized(row: Mapping[str, Any]) -> str | None:
    """Return the error of a row that is too large."""
    sizes = [len(each.encode("utf-16-le")) for each in row.values() if isinstance(each, str)]
    if any(size > _MOST_PROPERTY_BYTES for size in sizes):
        return "PropertyValueTooLarge"
    if sum(sizes) + 100 * len(row) > _MOST_ROW_BYTES:
        return "EntityTooLarge"
    return "TooManyProperties" if len(row) > _MOST_PROPERTIES else None
