"""Sweeps of the real table: what they cost, and that neither a rival nor a crash does harm."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import batched

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.identity import Epoch, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind, ProcessState
from functions.store.entities import Entity, index_entity, task_entity
from functions.store.keys import shard_of
from tests.fakes.tasks import SECOND, claimed, completed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.integration.supervisors import Supervisor

pytestmark = pytest.mark.process

PARCEL = workflow(step("send"))
FINISHED = told(pending(PARCEL), claimed(), started("send"), completed("send"))

SHARDS = 16


async def test_cost_of_a_sweep_follows_the_overdue_tasks(table: TableClient) -> None:
    """10,000 finished tasks, 20 overdue: at most shards + 2 reads for each of the 20, the outbox's too."""
    supervisor = Supervisor(table, shards=SHARDS)
    await _put_finished(table, 10_000)
    await _admit(supervisor, [pending(PARCEL, TaskId(f"overdue-{number}")) for number in range(20)])
    supervisor.clock.advance(36)
    supervisor.figures.reads = 0
    figures = await supervisor.sweep()
    assert (figures.found, figures.recovered, figures.failures) == (20, 20, 0)
    assert supervisor.figures.reads <= SHARDS + 20 * 2
    assert len(supervisor.requests.asked) == 20


async def test_two_supervisors_at_once_recover_once(table: TableClient) -> None:
    """Without the lease, on the same tasks at the same moment: one recovery each, one request."""
    one, two = Supervisor(table, holder="one"), Supervisor(table, holder="two")
    tasks = [TaskId(f"task-{number}") for number in range(10)]
    await _admit(one, [pending(PARCEL, task) for task in tasks])
    for each in (one, two):
        each.clock.advance(36)
    swept = await asyncio.gather(one.sweep_without_lease(), two.sweep_without_lease())
    assert sum(figures.recovered for figures in swept) == 10
    assert sum(figures.failures for figures in swept) == 0
    assert sorted(one.requests.asked + two.requests.asked) == [(task, SECOND) for task in tasks]
    for task in tasks:
        record = await one.record(task)
        assert (record.task.failure_count, record.task.epoch, len(record.history)) == (1, SECOND, 1)


async def test_request_lost_in_a_crash_is_made_good(table: TableClient) -> None:
    """Killed between its write and its message: the task is overdue again, and the next sweep finds it."""
    dying, living = Supervisor(table, holder="dying", crashes=True), Supervisor(table, holder="living")
    await _admit(dying, [pending(PARCEL)])
    dying.clock.advance(36)
    assert (await dying.sweep_without_lease()).failures == 1
    assert (await living.record(TASK)).task.epoch == SECOND
    living.clock.advance(36 + 30 + 6)
    await living.sweep()
    assert living.requests.asked == [(TASK, Epoch(3))]
    assert (await living.record(TASK)).task.failure_count == 2


async def test_alert_lost_in_a_crash_is_told(table: TableClient) -> None:
    """It was recorded with the change; the next sweep of anybody sends it, once."""
    dying, living = Supervisor(table, holder="dying", crashes=True), Supervisor(table, holder="living")
    exhausted = pending(PARCEL)
    await _admit(dying, [replace(exhausted, task=replace(exhausted.task, failure_count=3))])
    dying.clock.advance(36)
    await dying.sweep_without_lease()
    assert (await living.record(TASK)).task.process_state is ProcessState.ERROR
    living.clock.advance(36 + 31)
    assert [(await living.sweep()).told for _ in range(2)] == [1, 0]
    [alert] = living.queues.told
    assert (alert.kind, alert.task) == (AnnouncementKind.ALERT, TASK)


async def _admit(supervisor: Supervisor, records: Sequence[TaskRecord]) -> None:
    await asyncio.gather(*(supervisor.store.admit(record) for record in records))


async def _put_finished(table: TableClient, count: int) -> None:
    """Write of finished tasks the rows by which a sweep could meet them: the task's and the index's."""
    rows = defaultdict[str, list[Entity]](list)
    for number in range(count):
        record = _named(FINISHED, TaskId(f"finished-{number}"))
        shard = shard_of(record.order.task, SHARDS)
        rows[shard] += [
            row | {"PartitionKey": shard} for row in (task_entity(record.task, "test"), index_entity(record))
        ]
    await asyncio.gather(
        *(
            table.submit_transaction(("create", row) for row in batch)
            for of_shard in rows.values()
            for batch in batched(of_shard, 100, strict=False)
        )
    )


def _named(record: TaskRecord, task: TaskId) -> TaskRecord:
    """Give the record to another task."""
    return replace(record, order=replace(record.order, task=task), task=replace(record.task, order_id=task))
