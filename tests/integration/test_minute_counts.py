"""Counts of tasks on the real table."""

from __future__ import annotations

from datetime import timedelta

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.occurrences import TaskCounter
from functions.pattern.request_figures import StoreFigures
from functions.store.minute_counts import TableMinuteCounts
from tests.fakes.clock import START

pytestmark = pytest.mark.process

_MINUTE = START.replace(second=0, microsecond=0)
_EARLIER = _MINUTE - timedelta(minutes=1)


@pytest.fixture
def rows(table: TableClient) -> TableMinuteCounts:
    """Keep counts in the test's table."""
    return TableMinuteCounts(table, StoreFigures())


async def test_rows_of_all_processes_are_added_up_by_minute(rows: TableMinuteCounts) -> None:
    """From a minute on; a row that is written again counts once."""
    for _ in range(2):
        await rows.write(_MINUTE, "one", {TaskCounter.ACCEPTED: 2, TaskCounter.PROCESSED: 1})
    await rows.write(_MINUTE, "two", {TaskCounter.ACCEPTED: 5})
    await rows.write(_EARLIER, "one", {TaskCounter.RECOVERED: 1})
    counts = await rows.since(_EARLIER)
    assert {minute: {each: n for each, n in found.items() if n} for minute, found in counts.items()} == {
        _MINUTE: {TaskCounter.ACCEPTED: 7, TaskCounter.PROCESSED: 1},
        _EARLIER: {TaskCounter.RECOVERED: 1},
    }
    assert [*await rows.since(_MINUTE)] == [_MINUTE]


async def test_corrupt_row_hides_no_other(
    rows: TableMinuteCounts, table: TableClient, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged by its key."""
    await rows.write(_MINUTE, "one", {TaskCounter.ACCEPTED: 2})
    await table.create_entity({"PartitionKey": "!minutes", "RowKey": "2999|corrupt", "Accepted": "many"})
    counts = await rows.since(_MINUTE)
    assert {minute: found[TaskCounter.ACCEPTED] for minute, found in counts.items()} == {_MINUTE: 2}
    assert "2999|corrupt" in caplog.text


async def test_rows_of_earlier_minutes_are_deleted(rows: TableMinuteCounts, table: TableClient) -> None:
    """At most as many at once as the caller says, and no row of a task."""
    await table.create_entity({"PartitionKey": "000", "RowKey": "0|task"})
    for name in ("one", "two", "three"):
        await rows.write(_EARLIER, name, {TaskCounter.ACCEPTED: 1})
    await rows.write(_MINUTE, "one", {TaskCounter.ACCEPTED: 1})
    assert [await rows.delete_before(_MINUTE, 2) for _ in range(3)] == [2, 1, 0]
    assert [*await rows.since(_EARLIER)] == [_MINUTE]
    assert (await table.get_entity("000", "0|task"))["RowKey"] == "0|task"
