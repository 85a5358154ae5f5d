"""The overview on the real tables: few reads, and the counts of the last hour."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from azure.data.tables.aio import TableClient

from functions.operations.overview import OverviewReader
from functions.pattern.definition import Registry
from functions.pattern.occurrences import TaskCounter
from functions.pattern.ports import QueueDepth
from functions.pattern.request_figures import StoreFigures
from functions.store.conditional_rows import ConditionalRows, TableBreakerRows, TableHeartbeats
from functions.store.indexes import TableTaskIndex
from functions.store.minute_counts import TableMinuteCounts
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.shards import shards_in

pytestmark = pytest.mark.process

SHARDS = 16


class NoQueues:
    """Service Bus is not counted here."""

    async def depths(self) -> Sequence[QueueDepth]:
        """See nothing."""
        return []


async def test_overview_takes_few_reads(table: TableClient) -> None:
    """Three for each shard, and eight for rows that all instances share."""
    figures, clock = StoreFigures(), FakeClock()
    rows = ConditionalRows(table, new_id=str, figures=figures)
    counts = TableMinuteCounts(table, figures)
    ports = fake_ports(
        index=TableTaskIndex(shards_in(table, shards=SHARDS), figures),
        heartbeats=TableHeartbeats(rows),
        breakers=TableBreakerRows(rows),
        minute_counts=counts,
        queues=NoQueues(),
        clock=clock,
    )
    await counts.write(clock.now() - timedelta(minutes=1), "one", {TaskCounter.PROCESSED: 3})
    overview = await OverviewReader(ports, Registry((), {})).read()
    assert figures.reads == 3 * SHARDS + 8
    assert overview.last_hour[-1].processed == 3
