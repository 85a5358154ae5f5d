"""Writes to one shard that wait together are committed together, and one task's conflict affects no other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from functions.pattern.errors import TransientError, UnwritableError
from functions.pattern.events import Event, MessageLost
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import Admission, Changed
from tests.fakes.tasks import claimed, completed, pending, started
from tests.fakes.workflows import LINE, TASK, order, step, workflow
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process

pytestmark = pytest.mark.process

WIDE = workflow(*(step(f"s{number}") for number in range(90)))


def _tasks(count: int) -> list[TaskId]:
    return [TaskId(f"t{number:03d}") for number in range(count)]


async def _admit(process: Process, records: list[TaskRecord]) -> list[Admission]:
    admitted = await asyncio.gather(*(process.store.admit(record) for record in records))
    return [each.admission for each in admitted]


async def test_tasks_that_wait_together_are_written_together(process: Process) -> None:
    """60 tasks of five rows are 300 operations: one transaction is sent at once, three more take the rest."""
    records = [pending(LINE, task) for task in _tasks(60)]
    assert await _admit(process, records) == [Admission.RECORDED] * 60
    assert process.figures.operations == 300
    assert process.figures.transactions <= 4
    for record in records:
        assert (await process.read(record.order.task)).record == record


async def test_changes_are_also_written_together(process: Process) -> None:
    """Each task gets its own version for the next change."""
    tasks = _tasks(20)
    await _admit(process, [pending(LINE, task) for task in tasks])
    process.figures.transactions = 0
    rounds: list[list[Event]] = [
        [claimed(task=task) for task in tasks],
        [started("pick", task=task) for task in tasks],
        [completed("pick", task=task) for task in tasks],
    ]
    for events in rounds:
        changed = await asyncio.gather(*map(process.store.change, tasks, events))
        read = [await process.read(task) for task in tasks]
        assert changed == [Changed(each.record, (event,)) for each, event in zip(read, events, strict=True)]
    assert process.figures.transactions <= 6


async def test_conflict_of_one_task_does_not_affect_the_others(process: Process) -> None:
    """Its operations are taken out, and all the others are sent again."""
    tasks = _tasks(12)
    await process.store.admit(replace(pending(LINE, tasks[7]), order=order(LINE, tasks[7], weight=9)))
    admissions = await _admit(process, [pending(LINE, task) for task in tasks])
    assert admissions == [Admission.CONFLICT if task == tasks[7] else Admission.RECORDED for task in tasks]
    for task in tasks:
        assert (await process.read(task)).record.order.payload == (
            b'{"weight":9}' if task == tasks[7] else b'{"weight":3}'
        )


async def test_each_of_several_conflicts_is_reported(make_process: MakeProcess) -> None:
    """Another process has changed every third task: those changes are applied after a fresh read."""
    one, other = make_process(), make_process()
    tasks = _tasks(9)
    await _admit(one, [pending(LINE, task) for task in tasks])
    lost = MessageLost(queue="q", message_id="m-1", reason="TTL")
    for task in tasks[::3]:
        await other.told(task, lost)
    events = [claimed(task=task) for task in tasks]
    one.figures.reads = 0
    changed = await asyncio.gather(*map(one.store.change, tasks, events))
    assert one.figures.reads == 3
    read = [await one.read(task) for task in tasks]
    assert changed == [Changed(each.record, (event,)) for each, event in zip(read, events, strict=True)]
    assert [len(each.record.lost) for each in read] == [1, 0, 0] * 3


async def test_large_tasks_are_not_grouped_beyond_the_limits(process: Process) -> None:
    """They have 93 rows each: the service would refuse two in one transaction."""
    records = [pending(WIDE, task) for task in _tasks(4)]
    assert await _admit(process, records) == [Admission.RECORDED] * 4
    assert (process.figures.transactions, process.figures.operations) == (4, 4 * 93)


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # aiohttp, above 1 MiB
async def test_heavy_payloads_stay_within_four_mebibytes(process: Process) -> None:
    """40 payloads of 48 KiB, in base64, come close to the limit: none is refused."""
    records = [
        replace(record, order=replace(record.order, payload=b"x" * 48 * 1024))
        for record in (pending(LINE, task) for task in _tasks(40))
    ]
    assert await _admit(process, records) == [Admission.RECORDED] * 40


async def test_row_that_the_service_refuses_fails_its_own_task_only(process: Process) -> None:
    """Its payload is larger than a property may be; the others in its group are recorded."""
    tasks = _tasks(8)
    records = [pending(LINE, task) for task in tasks]
    records[5] = replace(records[5], order=replace(records[5].order, payload=b"x" * 65 * 1024))
    outcomes = await asyncio.gather(*map(process.store.admit, records), return_exceptions=True)
    [refused] = [each for each in outcomes if isinstance(each, BaseException)]
    assert isinstance(refused, UnwritableError)
    assert (refused.task, refused.code) == (tasks[5], "PropertyValueTooLarge")
    for task in tasks:
        assert (await process.store.load(task) is None) == (task == tasks[5])


async def test_failure_of_the_service_is_reported_to_every_caller(
    process: Process, make_process: MakeProcess
) -> None:
    """The table is deleted: every caller gets the error, none waits forever."""
    await process.table.delete_table()
    outcomes = await asyncio.gather(
        *(make_process().store.admit(pending(LINE, task)) for task in _tasks(3)), return_exceptions=True
    )
    assert [type(each) for each in outcomes] == [TransientError] * 3


async def test_two_changes_of_one_task_are_both_made(process: Process) -> None:
    """They are folded: the second is applied to the result of the first."""
    wide = workflow(step("left"), step("right"), name="line", resource="lines")
    await process.store.admit(pending(wide))
    await process.told(TASK, claimed())
    await asyncio.gather(*(process.store.change(TASK, started(name)) for name in ("left", "right")))
    states = [each.state for each in (await process.read(TASK)).record.steps]
    assert states == ["Running", "Running"]
