"""The overview of a table with 100,000 finished tasks: few reads, and the newest are counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from azure.data.tables.aio import TableClient

from functions.operations.overview.reader import OverviewReader
from functions.pattern.definition import Registry
from functions.pattern.identity import TaskId
from functions.pattern.ports import QueueDepth
from functions.pattern.request_figures import StoreFigures
from functions.pattern.store_ports import Index
from functions.store.conditional_rows import ConditionalRows, TableBreakerRows, TableHeartbeats
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import Row
from functions.store.indexes import TableTaskIndex
from functions.store.keys import index_key, shard_key
from tests.fakes.accounts import one_account
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.integration.bulk_rows import create_rows

pytestmark = [pytest.mark.process, pytest.mark.timeout(400)]

SHARDS = 16
TASKS = 100_000
NOW = datetime(2026, 11, 21, 10, 30, 30, tzinfo=UTC)

#: The last task finished now, and the first this long before.
OVER = timedelta(hours=4)


class NoQueues:
    """Service Bus is not counted here."""

    async def depths(self) -> Sequence[QueueDepth]:
        """See nothing."""
        return []


def _row(shard: int, number: int) -> Row:
    finished_at = NOW - OVER * (number / TASKS)
    return {
        "PartitionKey": shard_key(shard),
        "RowKey": index_key(Index.DONE, finished_at, TaskId(f"task-{number}")),
        "OrderID": f"task-{number}",
        "Workflow": "line",
        "WorkflowVersion": 1,
        "ProcessState": "Processed",
        "SubmittedAt": finished_at - timedelta(seconds=2),
    }


def _rows(shard: int) -> list[Row]:
    return [_row(shard, number) for number in range(shard, TASKS, SHARDS)]


async def test_overview_of_a_large_table_takes_few_reads(table: TableClient, groups: EntityGroups) -> None:
    """Four requests for each shard and seven more; the count says how far back it reaches."""
    await create_rows(groups, map(_rows, range(SHARDS)))
    figures, clock = StoreFigures(), FakeClock(NOW)
    rows = ConditionalRows(table, new_id=str, figures=figures)
    ports = fake_ports(
        index=TableTaskIndex(one_account(table, shards=SHARDS), figures),
        heartbeats=TableHeartbeats(rows),
        breakers=TableBreakerRows(rows),
        queues=NoQueues(),
        clock=clock,
    )
    overview = await OverviewReader(ports, Registry((), {})).read()
    assert figures.reads == 4 * SHARDS + 7
    finished = overview.finished
    assert not finished.more
    assert timedelta(minutes=20) < NOW - finished.since < timedelta(minutes=40)
    expected = TASKS * ((NOW - finished.since) / OVER)
    assert finished.processed == pytest.approx(expected, abs=2)
    assert finished.end_to_end is not None
    assert (finished.end_to_end.p50, finished.end_to_end.tasks) == (2.0, finished.processed)
