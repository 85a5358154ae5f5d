"""Two processes and one task: one wins, the other writes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from azure.data.tables import UpdateMode

from functions.pattern.identity import SchedulerId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.store_ports import Admission, Changed
from functions.store.entities import task_entity
from tests.fakes.interventions import recovered
from tests.fakes.tasks import FIRST, SECOND, claimed, completed, pending, started
from tests.fakes.workflows import LINE, TASK, order
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process

pytestmark = pytest.mark.process


async def test_order_is_admitted_once(make_process: MakeProcess) -> None:
    """Any process recognises the same order; different content is a conflict and changes nothing."""
    one, other = make_process(), make_process()
    assert (await one.store.admit(pending(LINE))).admission is Admission.RECORDED
    before = await one.rows()
    again = await other.store.admit(pending(LINE))
    assert (again.admission, again.stored.record) == (Admission.KNOWN, pending(LINE))
    heavy = replace(pending(LINE), order=order(LINE, weight=9))
    refused = await other.store.admit(heavy)
    assert (refused.admission, refused.stored.record) == (Admission.CONFLICT, pending(LINE))
    assert await one.rows() == before


async def test_same_order_at_the_same_moment_is_recorded_once(make_process: MakeProcess) -> None:
    """One process records it, the other recognises it."""
    admitted = await asyncio.gather(*(make_process().store.admit(pending(LINE)) for _ in range(4)))
    assert sorted(each.admission for each in admitted) == [Admission.KNOWN] * 3 + [Admission.RECORDED]


async def test_of_two_schedulers_at_the_same_moment_one_wins(make_process: MakeProcess) -> None:
    """Both have read the task as `Pending`; the loser is not of its run, writes nothing, and is refused."""
    one, other = make_process(), make_process()
    await one.store.admit(pending(LINE))
    read = await other.read(TASK)
    stranger = replace(claimed(), scheduler=SchedulerId("task-1.1.1"))
    outcomes = await asyncio.gather(
        one.store.change(TASK, claimed()), other.store.change(TASK, stranger, read=read)
    )
    assert isinstance(outcomes[0], Changed)
    assert outcomes[1] == Refused(RefusalReason.NOT_HOLDER)
    assert (await one.read(TASK)).record.task.locked_by == "task-1.1"


async def test_scheduler_that_comes_second_leaves_every_row_as_it_is(make_process: MakeProcess) -> None:
    """ETags and timestamps included: a failed write changes nothing."""
    one, other = make_process(), make_process()
    await one.store.admit(pending(LINE))
    late_read = await other.read(TASK)
    await one.store.change(TASK, claimed())
    before = await one.rows()
    stranger = replace(claimed(), scheduler=SchedulerId("task-1.stranger"))
    refused = await other.store.change(TASK, stranger, read=late_read)
    assert refused == Refused(RefusalReason.NOT_HOLDER)
    assert await one.rows() == before


async def test_superseded_scheduler_claims_nothing(make_process: MakeProcess) -> None:
    """Two Schedulers, of two epochs: only that of the current epoch gets the task, whichever is first."""
    process = make_process()
    await process.store.admit(recovered(pending(LINE)))
    old, new = await asyncio.gather(
        *(make_process().store.change(TASK, claimed(epoch)) for epoch in (FIRST, SECOND))
    )
    assert old == Refused(RefusalReason.STALE_EPOCH)
    assert isinstance(new, Changed)
    assert (await process.read(TASK)).record.task.locked_by == "task-1.2"


async def test_outcome_with_an_older_epoch_is_refused(make_process: MakeProcess) -> None:
    """The Agent's process has cached the task; another process has recovered it since."""
    agent, supervisor = make_process(), make_process()
    await agent.store.admit(pending(LINE))
    running = await agent.told(TASK, claimed(), started("pick"))
    await _overwrite(supervisor, recovered(running.record))
    again = await supervisor.told(TASK, claimed(SECOND))
    before = await supervisor.rows()
    assert await agent.store.known(TASK) == running.record
    assert await agent.store.change(TASK, completed("pick")) == Refused(RefusalReason.STALE_EPOCH)
    assert await supervisor.rows() == before
    assert await supervisor.read(TASK) == again


async def test_cached_task_is_not_trusted_when_nothing_is_written(
    make_process: MakeProcess,
) -> None:
    """A refusal is based on the table, not on the cache."""
    agent, other = make_process(), make_process()
    await agent.store.admit(pending(LINE))
    await _overwrite(other, recovered(pending(LINE)))
    assert await agent.store.known(TASK) == pending(LINE)
    claim = await agent.store.change(TASK, claimed(SECOND))
    assert isinstance(claim, Changed)
    assert claim.record.task.locked_by == "task-1.2"


async def _overwrite(process: Process, record: TaskRecord) -> None:
    """Recover the task as the Supervisor does: its row gets the next epoch."""
    row = task_entity(record.task, ("recovery",)) | {"PartitionKey": "000"}
    await process.table.update_entity(row, mode=UpdateMode.REPLACE)
