"""Reads of index rows and messages by pages, for the Supervisor and for operators' lists.

A corrupt row is named in the page and hides no other row. Times are UTC.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from functions.core.derive import ProcessState
from functions.storage.record_rows import decoded
from functions.storage.row_keys import task_in, time_in
from functions.storage.table_contract import CorruptRowError, Row, RowPage, RowQuery, Table

#: The columns of a query that needs keys only.
KEYS = ("PartitionKey", "RowKey")


@dataclass(frozen=True, slots=True)
class ListedTask:
    """An index row with state and reason of the moment at which it was written.

    The row of a search text has no state. `at` is the time in the key, None for a suspended task. A task in
    `Error` also has its failed step, if its error names one, and the class of the error.
    """

    task: str
    at: datetime | None
    workflow: str
    version: int
    submitter: str
    correlation_id: str | None
    submitted_at: datetime
    state: ProcessState | None
    reason: str | None
    failed_step: str | None
    error_class: str | None


@dataclass(frozen=True, slots=True)
class EntryPage[EntryT]:
    """Entries in the order of their keys, and the corrupt rows between them.

    `cursor` is the key of the last row, for `beyond` of the next query; None: there are no more rows.
    """

    entries: Sequence[EntryT]
    cursor: str | None
    corrupt: Sequence[CorruptRowError]


async def every_page(table: Table, partition: str, query: RowQuery) -> AsyncIterator[RowPage]:
    """Read a query page by page."""
    page = await table.query(partition, query)
    yield page
    while page.continuation is not None:
        page = await table.query(partition, replace(query, continuation=page.continuation))
        yield page


async def read_entries[EntryT](
    table: Table, partition: str, query: RowQuery, decode: Callable[[Row], EntryT], *, is_whole: bool = False
) -> EntryPage[EntryT]:
    """Return a page with rows, or all; `decode` raises `CorruptRowError`. Raises `TransientStorageError`."""
    entries: list[EntryT] = []
    corrupt: list[CorruptRowError] = []
    cursor: str | None = None
    async for page in every_page(table, partition, query):
        for row in page.rows:
            try:
                entries.append(decode(row))
            except CorruptRowError as error:
                corrupt.append(error)
        if page.rows and not is_whole:
            may_follow = page.continuation is not None or len(page.rows) >= query.most
            cursor = str(page.rows[-1]["RowKey"]) if may_follow else None
            break
    return EntryPage(entries, cursor, corrupt)


def listed_task(row: Row) -> ListedTask:
    """Return an index row for a list. Raises `CorruptRowError`."""
    key = str(row["RowKey"])
    return decoded(key, lambda: _listed(row, key))


def _listed(row: Row, key: str) -> ListedTask:
    task, at = task_in(key), time_in(key)
    workflow, version, state = row["Workflow"], row["WorkflowVersion"], row.get("ProcessState")
    if row["OrderID"] != task or type(version) is not int or not isinstance(workflow, str):
        raise ValueError("a column has a wrong value")
    return ListedTask(
        task=task,
        at=at,
        workflow=workflow,
        version=version,
        submitter=row["Submitter"],
        correlation_id=row.get("CorrelationID"),
        submitted_at=datetime.fromisoformat(row["SubmittedAt"]).astimezone(UTC),
        state=None if state is None else ProcessState(state),
        reason=row.get("Reason"),
        failed_step=row.get("FailedStep"),
        error_class=row.get("ErrorClass"),
    )
