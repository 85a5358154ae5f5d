"""What one order costs the state store, without and with notices: transactions, rows and reads."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from azure.data.tables.aio import TableClient

from functions.pattern.definition import Workflow
from functions.pattern.events import Event, StepCompleted, StepStarted
from functions.pattern.identity import StepName, TaskId, scheduler_id
from functions.pattern.occurrences import TaskCounter
from functions.pattern.planning import Runner, plan
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, Way
from functions.pattern.store_ports import Changed
from functions.store.announcing import Announcer
from functions.store.connect import TableStorage
from functions.store.entity_groups import EntityGroups
from functions.store.minute_counts import TableMinuteCounts
from functions.store.state_store import TableStateStore
from functions.store.task_table import TaskTable
from functions.store.task_writer import TaskWriter
from functions.telemetry.changes import CountedChanges, MinuteCounter
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.shards import shards_in
from tests.fakes.supervision import Queues, RecordedRequests
from tests.fakes.tasks import FIRST, after, claimed, completed, pending
from tests.fakes.workflows import TASK, step, workflow
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Process

pytestmark = pytest.mark.process

#: Steps that may take longer than a Scheduler has to start: the due row of such a task never moves.
FIVE = workflow(
    *(step(f"s{number}", *[f"s{number - 1}"][:number], complete_within=60) for number in range(5))
)
#: As the workflow `orders`: one step, behind a queue pair.
ONE = workflow(step("pay", complete_within=60, via=Way.QUEUE))
RUNNER = Runner(
    epoch=FIRST,
    scheduler=scheduler_id(TASK, FIRST),
    activity=1,
    at_once=16,
    ends_at=after(300),
    start_within=timedelta(seconds=30),
    pick_up_within=timedelta(),
    new_id=lambda: uuid.uuid4().hex,
)


class Run:
    """Runs a task as `run_steps` does, with Agents that do their work in no time."""

    def __init__(self, store: TableStateStore, task: TaskId = TASK) -> None:
        self._store = store
        self._task = task
        self._runner = replace(RUNNER, scheduler=scheduler_id(task, FIRST))

    def follow(self, record: TaskRecord, now: datetime) -> Sequence[Event]:
        """Plan what is ready."""
        return plan(record, self._runner, now, look_at=_always, is_first=True, may_share=False).events

    async def tell(self, event: Event) -> None:
        """Tell the event, then the outcomes of what it has started."""
        changed = await self._store.change(self._task, event, follow=self.follow)
        assert isinstance(changed, Changed)
        started = [each for each in changed.events if isinstance(each, StepStarted)]
        await asyncio.gather(*(self.tell(self._completed(each)) for each in started))

    def _completed(self, start: StepStarted) -> StepCompleted:
        return completed(start.step, task=self._task, token=start.token)


def _always(_: StepName) -> bool:
    return True


@pytest.mark.parametrize(
    ("definition", "transactions", "rows"),
    [(FIVE, 7, 26), (ONE, 3, 10)],
    ids=["five steps", "one behind a queue"],
)
async def test_order_costs_its_transactions_and_rows_and_no_read(
    process: Process, definition: Workflow, transactions: int, rows: int
) -> None:
    """An outcome and the start that follows are one transaction; the process knows what it wrote."""
    await process.store.admit(pending(definition))
    await Run(process.store).tell(claimed())
    figures = process.figures
    assert (figures.transactions, figures.operations, figures.reads) == (transactions, rows, 0)
    assert (await process.read(TASK)).record.task.process_state is ProcessState.PROCESSED


async def test_text_by_which_a_task_is_found_adds_a_row_and_no_transaction(process: Process) -> None:
    """Written with the task, and never again."""
    findable = replace(FIVE, find_by=lambda parcel: ["Ada", f"weight {parcel.weight}"])
    await process.store.admit(pending(findable))
    await Run(process.store).tell(claimed())
    assert (process.figures.transactions, process.figures.operations) == (7, 28)


async def test_notices_add_one_transaction_and_five_rows(
    process: Process, table: TableClient, groups: EntityGroups
) -> None:
    """The mark of the first goes with a change of the task; that of the last needs one of its own."""
    rows = TaskTable(shards_in(table, groups), process.figures)
    writer = TaskWriter(rows, clock=process.clock, new_id=lambda: uuid.uuid4().hex)
    announcer = Announcer(writer, announcements=Queues(), requests=RecordedRequests(), clock=process.clock)
    store = TableStateStore(rows, writer, announcer)
    record = pending(FIVE)
    await store.admit(replace(record, order=replace(record.order, reply_to="notices-demo")))
    await Run(store).tell(claimed())
    await announcer.settle()
    await writer.settle()
    figures = process.figures
    assert (figures.transactions, figures.operations, figures.reads) == (8, 31, 0)
    assert len((await process.read(TASK)).record.task.sent) == 2
    assert not any(key.startswith("!send") for key in await process.rows())


async def test_counts_of_tasks_are_one_row_a_minute_however_many_orders(
    process: Process, table: TableClient, groups: EntityGroups, storage: TableStorage
) -> None:
    """An order has no transaction and no row more: its process writes the counts of a minute at once."""
    rows = TaskTable(shards_in(table, groups, storage.rows(table.table_name)), process.figures)
    writer = TaskWriter(rows, clock=process.clock, new_id=lambda: uuid.uuid4().hex)
    counts = TableMinuteCounts(table, process.figures)
    minute = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await minute.wait()
        process.clock.advance(seconds)

    minutes = MinuteCounter(counts, clock=process.clock, new_id=lambda: uuid.uuid4().hex, sleep=sleep)
    store = TableStateStore(rows, writer, CountedChanges(RecordingAnnouncer(), minutes))
    tasks = [TaskId(f"task-{number}") for number in range(5)]
    for task in tasks:
        await store.admit(pending(FIVE, task))
        await Run(store, task).tell(claimed(task=task))
    figures = process.figures
    assert (figures.transactions, figures.operations, figures.reads) == (5 * 7, 5 * 26, 0)
    minute.set()
    await minutes.settle()
    assert (figures.transactions, figures.operations, figures.reads) == (5 * 7, 5 * 26 + 1, 0)
    [found] = (await counts.since(process.clock.now() - timedelta(minutes=2))).values()
    assert (found[TaskCounter.ACCEPTED], found[TaskCounter.PROCESSED]) == (5, 5)


async def test_order_that_changes_processes_costs_a_read_in_each(make_process: MakeProcess) -> None:
    """Another machine runs the task than the one that recorded it."""
    one, other = make_process(), make_process()
    await one.store.admit(pending(FIVE))
    await Run(other.store).tell(claimed())
    assert (one.figures.transactions, one.figures.reads) == (1, 0)
    assert (other.figures.transactions, other.figures.reads) == (6, 1)
