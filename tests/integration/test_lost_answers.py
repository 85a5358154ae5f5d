"""A write whose response was lost is recognised as our own."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest
from azure.data.tables.aio import TableClient

from functions.connections import Connection
from functions.pattern.errors import TransientError
from functions.pattern.events import Event
from functions.pattern.identity import TaskId
from functions.pattern.states import ProcessState, StepState
from functions.pattern.store_ports import Admission, Changed
from functions.store import connect
from tests.chaos.injection.proxy import Proxy, ProxyMode
from tests.fakes.clock import START
from tests.fakes.tasks import after, claimed, completed, failed, pending, started
from tests.fakes.workflows import LINE, TASK
from tests.integration.processes import Loss, Process

pytestmark = pytest.mark.process

BEFORE: list[Event] = [claimed(), started("pick")]
LAST: list[Event] = [completed("pick"), failed("pick")]


async def test_retried_admission_counts_as_recorded_not_as_known(process: Process) -> None:
    """After the conflict with itself, the task is read back."""
    process.lossy.lose_next_answer(Loss.REPEATED)
    admitted = await process.store.admit(pending(LINE))
    assert admitted.admission is Admission.RECORDED
    assert admitted.stored == await process.read(TASK)


async def test_admission_that_was_given_up_is_recognised_when_redelivered(process: Process) -> None:
    """The message is redelivered, and finds its own task."""
    process.lossy.lose_next_answer(Loss.GIVEN_UP)
    with pytest.raises(TransientError):
        await process.store.admit(pending(LINE))
    assert (await process.store.admit(pending(LINE))).admission is Admission.KNOWN


@pytest.mark.parametrize("number", range(3), ids=["claim", "start", "outcome"])
@pytest.mark.parametrize("last", LAST, ids=["completed", "failed"])
async def test_retried_change_is_recognised_as_our_own(process: Process, number: int, last: Event) -> None:
    """Any change of a task is applied once, and reported as applied."""
    await process.store.admit(pending(LINE))
    events = [*BEFORE, last]
    await process.told(TASK, *events[:number])
    process.lossy.lose_next_answer(Loss.REPEATED)
    changed = await process.store.change(TASK, events[number])
    read = (await process.read(TASK)).record
    assert changed == Changed(read, (events[number],))
    if number == 2:
        state = StepState.COMPLETED if last is LAST[0] else StepState.FAILED
        assert read.steps[0].state is state


@pytest.mark.parametrize("loss", list(Loss))
async def test_change_outlives_what_becomes_of_it(process: Process, loss: Loss) -> None:
    """A caller that waits learns that it was recorded, and it is announced once."""
    await process.store.admit(pending(LINE))
    await process.told(TASK, *BEFORE)
    process.announcer.changes.clear()
    process.lossy.lose_next_answer(loss)
    changed = await process.store.change(TASK, completed("pick"))
    assert changed == Changed((await process.read(TASK)).record, (completed("pick"),))
    assert len(process.announcer.changes) == 1


async def test_outage_is_outlived_until_the_event_is_too_late(process: Process) -> None:
    """The store fails a dozen times; nobody counts tries."""
    await process.store.admit(pending(LINE))
    process.lossy.lose_next_answer(*[Loss.UNSENT] * 12)
    assert isinstance(await process.store.change(TASK, claimed(), until=after(60)), Changed)
    process.lossy.lose_next_answer(*[Loss.UNSENT] * 1000)
    with pytest.raises(TransientError, match="StepStarted could not be recorded in time"):
        await process.store.change(TASK, started("pick"), until=START)


@pytest.mark.parametrize("loss", [Loss.GIVEN_UP, Loss.REPEATED])
async def test_last_outcome_is_recognised_as_our_own(process: Process, loss: Loss) -> None:
    """Also when it finishes the task."""
    await process.store.admit(pending(LINE))
    await process.told(TASK, *BEFORE, completed("pick"), started("send"))
    process.lossy.lose_next_answer(loss)
    changed = await process.store.change(TASK, completed("send"))
    assert isinstance(changed, Changed)
    assert changed.record.task.process_state is ProcessState.PROCESSED
    assert await process.store.change(TASK, completed("send")) == Changed(changed.record)


async def test_retried_group_is_recognised_task_by_task(process: Process) -> None:
    """All were written; each task finds its own change."""
    tasks = [TaskId(f"t{number}") for number in range(6)]
    process.lossy.lose_next_answer(Loss.REPEATED)
    admitted = await asyncio.gather(*(process.store.admit(pending(LINE, task)) for task in tasks))
    assert {each.admission for each in admitted} == {Admission.RECORDED}
    process.lossy.lose_next_answer(Loss.REPEATED)
    changed = await asyncio.gather(*(process.store.change(task, claimed(task=task)) for task in tasks))
    assert changed == [Changed((await process.read(task)).record, (claimed(task=task),)) for task in tasks]


async def test_write_on_a_lost_connection_is_retried_by_the_sdk(
    connection: Connection, table: TableClient
) -> None:
    """The write succeeds, its response never arrives; callers of the store notice nothing."""
    assert connection.connection_string is not None
    port = urlsplit(table.url).port
    assert port is not None
    proxy = Proxy()
    proxy.forward_to(port)
    async with proxy.serving():
        by_proxy = connection.connection_string.replace(f":{port}/", f":{proxy.port}/")
        async with connect.connect(Connection(by_proxy, None, None)) as storage:
            process = Process(
                storage.table(table.table_name),
                storage.groups(table.table_name),
                storage.rows(table.table_name),
            )
            async with proxy.mode(ProxyMode.DROPPING_ANSWERS):
                admission = asyncio.create_task(process.store.admit(pending(LINE)))
                async with asyncio.timeout(60):
                    while not proxy.affected:
                        await asyncio.sleep(0.01)
            assert (await admission).admission is Admission.RECORDED
