"""Sweeps of the real table: what they cost, and that neither a second Supervisor nor a crash does harm."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.identity import Epoch, TaskId, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind, ProcessState
from functions.pattern.wait_events import HandedBack
from functions.store.entities import task_entity
from functions.store.entity_groups import EntityGroups
from functions.store.group_format import Row
from functions.store.index_entities import index_entity
from functions.store.keys import shard_key, shard_number
from tests.fakes.tasks import FIRST, SECOND, claimed, completed, pending, started, told
from tests.fakes.workflows import TASK, awaiting, workflow
from tests.integration.bulk_rows import create_rows
from tests.integration.supervisors import PARCEL, Supervisor

pytestmark = pytest.mark.process

FINISHED = told(pending(PARCEL), claimed(), started("send"), completed("send"))
WAITING = told(
    pending(workflow(awaiting("approve", complete_within=365 * 86_400))),
    claimed(),
    started("approve", complete_by=365 * 86_400),
    HandedBack(epoch=FIRST, scheduler=scheduler_id(TASK, FIRST)),
)

SHARDS = 16


async def test_cost_of_a_sweep_follows_the_overdue_tasks(table: TableClient, groups: EntityGroups) -> None:
    """A read for each of 20 that are overdue, and three for each shard (due, parked, unsent).

    None for 10,000 that are finished, and none for 10,000 that wait for a year.
    """
    supervisor = Supervisor(table, groups, shards=SHARDS)
    await create_rows(groups, map(_others, range(SHARDS)))
    await _admit(supervisor, [pending(PARCEL, TaskId(f"overdue-{number}")) for number in range(20)])
    supervisor.clock.advance(36)
    supervisor.figures.reads = 0
    figures = await supervisor.sweep()
    assert (figures.found, figures.asked_again, figures.failures) == (20, 20, 0)
    # Besides: where the last sweep stopped, which Agents are known to be silent, and which crowds.
    assert supervisor.figures.reads <= 3 * SHARDS + 20 + 3
    assert len(supervisor.requests.asked) == 20


async def test_two_supervisors_at_once_recover_once(table: TableClient, groups: EntityGroups) -> None:
    """On the same tasks at the same moment: one recovery and one request each."""
    one, two = Supervisor(table, groups, instance="one"), Supervisor(table, groups, instance="two")
    tasks = [TaskId(f"task-{number}") for number in range(10)]
    await _admit(one, [pending(PARCEL, task) for task in tasks])
    for each in (one, two):
        each.clock.advance(36)
    swept = await asyncio.gather(one.sweep(), two.sweep())
    assert sum(figures.recovered for figures in swept) == 10
    assert sum(figures.failures for figures in swept) == 0
    assert sorted(one.requests.asked + two.requests.asked) == [(task, SECOND) for task in tasks]
    for task in tasks:
        record = await one.record(task)
        assert (record.task.failure_count, record.task.epoch, len(record.history)) == (1, SECOND, 1)


async def test_request_lost_in_a_crash_is_sent_by_the_next_recovery(
    table: TableClient, groups: EntityGroups
) -> None:
    """Killed between write and message: the task becomes overdue again, and the next sweep finds it."""
    dying, living = (
        Supervisor(table, groups, instance="dying", crashes=True),
        Supervisor(table, groups, instance="living"),
    )
    await _admit(dying, [pending(PARCEL)])
    dying.clock.advance(36)
    assert (await dying.sweep()).failures == 1
    assert (await living.record(TASK)).task.epoch == SECOND
    living.clock.advance(36 + 30 + 6)
    await living.sweep()
    assert living.requests.asked == [(TASK, Epoch(3))]
    assert (await living.record(TASK)).task.failure_count == 2


async def test_alert_lost_in_a_crash_is_sent(table: TableClient, groups: EntityGroups) -> None:
    """It was recorded with the change; the next sweep, by any Supervisor, sends it once."""
    dying, living = (
        Supervisor(table, groups, instance="dying", crashes=True),
        Supervisor(table, groups, instance="living"),
    )
    exhausted = pending(PARCEL)
    await _admit(dying, [replace(exhausted, task=replace(exhausted.task, failure_count=3))])
    dying.clock.advance(36)
    await dying.sweep()
    assert (await living.record(TASK)).task.process_state is ProcessState.ERROR
    living.clock.advance(36 + 31)
    assert [(await living.sweep()).sent for _ in range(2)] == [1, 0]
    [alert] = living.queues.told
    assert (alert.kind, alert.task) == (AnnouncementKind.ALERT, TASK)


async def _admit(supervisor: Supervisor, records: Sequence[TaskRecord]) -> None:
    await asyncio.gather(*(supervisor.store.admit(record) for record in records))


def _others(shard: int) -> Iterator[Row]:
    """Return the rows of one shard's tasks of which none is due that a sweep could read: task and index."""
    for number, (name, other) in product(range(10_000), {"finished": FINISHED, "waiting": WAITING}.items()):
        task = TaskId(f"{name}-{number}")
        key = shard_key(shard_number(task, SHARDS))
        if key == shard_key(shard):
            record = _named(other, task)
            yield task_entity(record.task, ("test",)) | {"PartitionKey": key}
            yield index_entity(record) | {"PartitionKey": key}


def _named(record: TaskRecord, task: TaskId) -> TaskRecord:
    """Return the record under another task's id."""
    return replace(record, order=replace(record.order, task=task), task=replace(record.task, order_id=task))
