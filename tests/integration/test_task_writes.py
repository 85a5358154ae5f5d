"""Processes that write to one table at once: one wins, groups share a transaction, costs are bounded."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import cycle
from typing import Any

import pytest
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient

from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import TransientError, UnwritableError
from functions.pattern.events import Event, MessageLost, StepCompleted, StepStarted
from functions.pattern.identity import SchedulerId, StepName, TaskId, scheduler_id
from functions.pattern.occurrences import TaskCounter
from functions.pattern.planning import Runner, plan
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, Way
from functions.pattern.store_ports import Admission, Changed
from functions.scheduler.progress import RunInput
from functions.scheduler.run_steps import RunSteps
from functions.store import task_table
from functions.store.announcing import Announcer
from functions.store.connect import TableStorage
from functions.store.entities import task_entity
from functions.store.entity_groups import EntityGroups
from functions.store.minute_counts import TableMinuteCounts
from functions.store.pages import Page, read_page
from functions.store.state_store import TableStateStore
from functions.store.task_table import TaskTable
from functions.store.task_writer import TaskWriter
from functions.telemetry.changes import CountedChanges, MinuteCounter
from tests.fakes.agents import ScriptedAgent
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.interventions import recovered
from tests.fakes.runners import make_runs
from tests.fakes.shards import shards_in
from tests.fakes.supervision import Queues, RecordedRequests
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, TASK, order, step, workflow
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


def _wide(steps: int) -> Workflow:
    """All but the last side by side; the last needs all of them. No outcome is late on a busy machine."""
    names = [f"s{number:02d}" for number in range(steps - 1)]
    long = partial(step, complete_within=600)
    return workflow(*map(long, names), long("last", *names))


async def _schedule(processes: list[RunSteps]) -> None:
    """Start runs as the orchestrator does, in one process after another, until the task is over."""
    places, numbers = cycle(processes), iter(range(1, 100))

    async def run(*, share: bool) -> None:
        given = RunInput(task=TASK, epoch=1, number=next(numbers), share=share)
        progress = await next(places).run(given)
        assert progress["state"] != "unknown"
        await asyncio.gather(*(run(share=True) for _ in range(progress["runs"])))

    await run(share=False)


@pytest.mark.parametrize("count", [1, 4], ids=["one process", "four processes"])
@pytest.mark.parametrize("steps", [12, 24, 90])
async def test_every_step_is_called_once_and_done(make_process: MakeProcess, steps: int, count: int) -> None:
    """In epoch 1, whichever runs start and end their steps at the same moment."""
    definition, agent = _wide(steps), ScriptedAgent()
    agents = {each.agent: agent for each in definition.steps}
    processes: list[Process] = [make_process() for _ in range(count)]
    await processes[0].store.admit(pending(definition))
    registry = Registry((definition,), {})
    await _schedule(
        [
            make_runs(each.store, agents, registry, each.clock, process=f"p{number}")
            for number, each in enumerate(processes)
        ]
    )
    record = (await processes[0].read(TASK)).record
    assert sorted(agent.steps) == sorted(each.name for each in definition.steps)
    assert (record.task.process_state, record.task.epoch) == (ProcessState.PROCESSED, FIRST)
    assert record.task.failure_count == 0
    if count == 1:
        assert processes[0].figures.transactions <= 12


def _without_needs(steps: int) -> Workflow:
    return workflow(*(step(f"s{number:02d}") for number in range(steps)))


async def _end_all(processes: list[Process], record: TaskRecord) -> list[Changed]:
    """Have the processes record the outcomes of all steps, each its part of them."""
    outcomes = [
        processes[number % len(processes)].store.change(TASK, completed(each.name))
        for number, each in enumerate(record.steps)
    ]
    return [each for each in await asyncio.gather(*outcomes) if isinstance(each, Changed)]


@pytest.mark.parametrize("count", [1, 4], ids=["one process", "four processes"])
@pytest.mark.parametrize("steps", [12, 24, 90])
async def test_every_outcome_is_recorded(make_process: MakeProcess, steps: int, count: int) -> None:
    """In epoch 1, each change announced once, whoever else writes at the same moment."""
    processes = [make_process() for _ in range(count)]
    definition = _without_needs(steps)
    record = told(pending(definition), claimed(), *(started(each.name) for each in definition.steps))
    await processes[0].store.admit(record)
    assert len(await _end_all(processes, record)) == steps
    task = (await processes[0].read(TASK)).record.task
    assert (task.process_state, task.epoch, task.failure_count) == (ProcessState.PROCESSED, FIRST, 0)
    assert sum(len(process.announcer.changes) for process in processes) == steps + 1
    assert sum(process.figures.transactions for process in processes) <= 1 + 8 * count


async def test_read_of_several_pages_is_never_torn(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps on the first and on the last page end while the pages are read one after another."""
    definition = _without_needs(20)
    record = told(pending(definition), claimed(), *(started(each.name) for each in definition.steps))
    await process.store.admit(record)
    names = [each.name for each in definition.steps]
    ending = list(zip(names[:5], names[10:], strict=False))

    async def read_five(*given: Any, **options: Any) -> Page:
        page = await read_page(*given, **options, most=5)
        if ending:
            await asyncio.gather(*(process.store.change(TASK, completed(name)) for name in ending.pop()))
        return page

    with monkeypatch.context() as patched:
        patched.setattr(task_table, "read_page", read_five)
        stored = await process.read(TASK)
    assert stored == await process.read(TASK)
    assert [each.settled for each in stored.record.steps].count(True) == 10


async def test_task_that_never_stands_still_is_not_read_for_ever(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is told, and may try again."""
    await process.store.admit(told(pending(_without_needs(20))))

    async def read_five(*given: Any, **options: Any) -> Page:
        page = await read_page(*given, **options, most=5)
        lost = MessageLost(queue="q", message_id=str(process.figures.reads), reason="TTL")
        await process.store.change(TASK, lost)
        return page

    monkeypatch.setattr(task_table, "read_page", read_five)
    monkeypatch.setattr(task_table, "_MOST_READS", 3)
    with pytest.raises(TransientError, match="changes faster than it can be read"):
        await process.store.load(TASK)


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
