"""A refused reply is kept, whatever it names."""

from __future__ import annotations

import json

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.request_figures import StoreFigures
from functions.scheduler.takers import ReplyTaker
from functions.store.rejected import TableRejectedMessages
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.times import MemoryTimes, RecordedRefusals

pytestmark = pytest.mark.process


@pytest.mark.parametrize("task", ["t-1\n", "t-1"])
async def test_refused_reply_is_kept(table: TableClient, task: str) -> None:
    """With the end of a line in its task's id, the table refuses the row: for ever, so the message dies unkept."""
    clock = FakeClock()
    kept = TableRejectedMessages(table, clock=clock, figures=StoreFigures())
    ports = fake_ports(store=MemoryStateStore(clock), clock=clock, rejected=kept, times=MemoryTimes())
    taker = ReplyTaker(ports, limits(), RecordedRefusals().alert)
    body = json.dumps({"schema_version": 2, "task_id": task, "step": "pick", "epoch": "1"}).encode()
    await taker.take("m-1", body, RecordedSchedulers())
    assert len((await kept.listed(queues=(), most=10)).messages) == 1
