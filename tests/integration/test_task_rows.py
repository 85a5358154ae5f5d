"""The rows of a task: written together, read back as written, recognised after a lost response, deleted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from azure.data.tables.aio import TableClient

from functions.connections import Connection
from functions.pattern.errors import TransientError
from functions.pattern.events import Event, MessageLost, StepTried
from functions.pattern.identity import Epoch, SchedulerId, StartId, StepName, TaskId, scheduler_id
from functions.pattern.records import Order, SentAnnouncement, Task, TaskRecord
from functions.pattern.request_figures import StoreFigures
from functions.pattern.states import AnnouncementKind, Direction, ProcessState, StepState, Way
from functions.pattern.step_records import StepRecord
from functions.pattern.store_ports import Admission, Changed, Stored
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.texts import MAX_ERROR_BYTES, MAX_PAST_ERROR_BYTES
from functions.store import connect
from functions.store.entity_groups import EntityGroups
from functions.store.rejected import TableRejectedMessages
from functions.store.retention import TableTaskRetention
from tests.chaos.injection.proxy import Proxy, ProxyMode
from tests.fakes.clock import START, FakeClock
from tests.fakes.interventions import cancellation, done, resubmission
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import BIRTH, LINE, TASK, step, workflow
from tests.integration.conftest import MakeProcess
from tests.integration.processes import Loss, Process

pytestmark = pytest.mark.process


QUEUED = workflow(step("pick", via=Way.QUEUE), step("send", "pick"), name="line", resource="lines")
FULL = TaskRecord(
    order=Order(
        task=TASK,
        birth=BIRTH,
        workflow="line",
        workflow_version=3,
        shape=QUEUED.shape,
        payload='{"name":"Ä\u2028\U0001f600"}'.encode(),
        digest="d" * 64,
        submitter="Ünknown",
        submitted_at=START,
        reply_to="notices-demo",
        correlation_id="c'1",
    ),
    task=Task(
        order_id=TASK,
        locked_by=SchedulerId("task-1.7"),
        complete_by=after(1.000001),
        process_state=ProcessState.PROCESSING,
        failure_count=2,
        epoch=Epoch(7),
        direction=Direction.UNDO,
        due_at=after(0.5),
        updated_at=after(0.25),
        finished_at=after(99),
        last_error="pick: no 'money'\nat all",
        answer=b'{"name":"\xc3\x84"}',
        sent=(SentAnnouncement(kind=AnnouncementKind.RECEIVED, epoch=Epoch(1), sent_at=after(3.000001)),),
    ),
    steps=(
        StepRecord(
            shape=QUEUED.shape.steps[0],
            state=StepState.FAILED,
            complete_by=after(10),
            started_at=after(2),
            finished_at=after(3),
            epoch=Epoch(6),
            result=b"\x00\xff",
            error="no",
            token="secret",
            activity=3,
            start_id=StartId("5f"),
        ),
        StepRecord(shape=QUEUED.shape.steps[1]),
    ),
)
LOST = MessageLost(
    queue="agent-replies", message_id="task/1#?\\", reason="MaxDeliveryCountExceeded: 10 times"
)


async def test_every_field_is_read_back(process: Process) -> None:
    """Text of any language, bytes of any value, null as null."""
    assert (await process.store.admit(FULL)).admission is Admission.RECORDED
    assert (await process.read(TASK)).record == FULL


async def test_empty_fields_are_read_back_empty(process: Process) -> None:
    """A new task has many empty fields."""
    await process.store.admit(pending(LINE))
    assert (await process.read(TASK)).record == pending(LINE)


async def test_largest_payload_fits(process: Process) -> None:
    """48 KiB, together with a result of 24 KiB."""
    step = replace(FULL.steps[0], result=b"r" * 24 * 1024)
    large = replace(FULL, order=replace(FULL.order, payload=b"p" * 48 * 1024)).with_step(step)
    await process.store.admit(large)
    assert (await process.read(TASK)).record == large


async def test_change_is_read_back_as_it_was_returned(process: Process) -> None:
    """`change` returns what is in the table, and its version guards the next change."""
    admitted = await process.store.admit(pending(LINE))
    assert admitted.stored == await process.read(TASK)
    events = (claimed(), started("pick"), completed("pick", result=b'{"bin":7}'))
    for event in events:
        changed = await process.store.change(TASK, event)
        read = await process.read(TASK)
        assert changed == Changed(read.record, (event,))
        assert process.writer.remembered(TASK) == read
    assert read.record == told(pending(LINE), *events)


async def test_history_is_read_back(process: Process) -> None:
    """A lost message, whatever its id, and the error that ended an epoch."""
    in_error = replace(FULL, task=replace(FULL.task, process_state=ProcessState.ERROR))
    await process.store.admit(in_error)
    for event in (LOST, LOST, resubmission(Epoch(7))):
        changed = await process.store.change(TASK, event)
        stored = await process.read(TASK)
        assert isinstance(changed, Changed)
        assert changed.record == stored.record
    assert [each.message_id for each in stored.record.lost] == [LOST.message_id]
    assert [each.last_error for each in stored.record.history] == [FULL.task.last_error]


async def test_task_is_not_mistaken_for_one_with_the_same_prefix(process: Process) -> None:
    """Names that sort next to each other, with every character that a name may contain."""
    names = [TaskId(name) for name in ("a", "a-", "a-b", "a0", "aa", "a_", "A", "-", "_", "z" * 64)]
    for name in names:
        await process.store.admit(pending(LINE, name))
    for name in names:
        assert (await process.read(name)).record == pending(LINE, name)


async def test_unknown_task_is_none(process: Process) -> None:
    """Reading it is not an error."""
    assert await process.store.load(TaskId("nobody")) is None


async def test_processed_task_is_cancelled_in_one_transaction(process: Process) -> None:
    """It leaves the list of what is done, its answer goes, and its results stay for the undo."""
    of = replace(LINE, steps=(replace(LINE.steps[0], undo=True), LINE.steps[1]), cancel_within=60)
    process.complete = lambda record: replace(record, task=replace(record.task, answer=b'{"n":1}'))
    await process.store.admit(pending(of))
    events = (claimed(), started("pick"), completed("pick", result=b'{"bin":7}'), *done("send"))
    processed = await process.told(TASK, *events)
    assert processed.record.task.answer == b'{"n":1}'
    transactions = process.figures.transactions
    cancelled = (await process.told(TASK, cancellation())).record
    assert process.figures.transactions == transactions + 1
    assert (cancelled.task.process_state, cancelled.task.answer) == (ProcessState.PENDING, None)
    assert [each.partition("|")[0] for each in await process.index()] == ["!due"]
    assert cancelled.step(LINE.steps[0].name).result == b'{"bin":7}'
    assert cancelled.history[-1].who == "carla"


DUE_AT_PICK_UP = "!due|20261121T100030.123456Z|task-1"
DUE_AT_STEP = "!due|20261121T100020.123456Z|task-1"
#: Microseconds from the end of the task to the end of the year 9999.
LATEST_FIRST = "251607045598876543"
PICKED: list[Event] = [claimed(), started("pick"), completed("pick"), started("send", complete_by=25)]


@pytest.mark.parametrize(
    ("events", "row"),
    [
        (PICKED[:0], DUE_AT_PICK_UP),
        (PICKED[:1], DUE_AT_PICK_UP),
        (PICKED[:2], DUE_AT_STEP),
        (PICKED[:3], DUE_AT_STEP),
        (PICKED, DUE_AT_STEP),
        ([*PICKED, completed("send")], f"!done|{LATEST_FIRST}|task-1"),
        ([*PICKED, failed("send")], f"!error|{LATEST_FIRST}|task-1"),
    ],
    ids=["Pending", "Processing", "running", "between", "running again", "Processed", "Error"],
)
async def test_task_has_only_the_index_row_of_its_state(
    process: Process, events: list[Event], row: str
) -> None:
    """In progress: by its due time, never later than its running step's. Then by the time it finished."""
    await process.store.admit(pending(LINE))
    process.clock.advance(1)
    stored = await process.told(TASK, *events)
    assert await process.index() == [row]
    index = (await process.rows())[row]
    assert (index["OrderID"], index["Workflow"]) == (TASK, "line")
    if not row.startswith("!due"):
        assert index["ProcessState"] == stored.record.task.process_state


async def test_task_row_has_the_patterns_columns(process: Process) -> None:
    """With exactly the pattern's names; null is an absent property."""
    await process.store.admit(pending(LINE))
    await process.told(TASK, claimed())
    row = (await process.rows())["task-1|task"]
    assert {name: row[name] for name in ("OrderID", "LockedBy", "ProcessState", "FailureCount", "Epoch")} == {
        "OrderID": "task-1",
        "LockedBy": "task-1.1",
        "ProcessState": "Processing",
        "FailureCount": 0,
        "Epoch": 1,
    }
    assert "CompleteBy" in row


async def test_all_rows_of_a_task_appear_together(make_process: MakeProcess) -> None:
    """A reader sees all five at any moment, or none."""
    writer, reader = make_process(), make_process()
    seen = set[int]()

    async def watch() -> None:
        while 5 not in seen:
            seen.add(len(await reader.rows()))

    async with asyncio.timeout(60):
        await asyncio.gather(watch(), writer.store.admit(pending(LINE)))
    assert seen <= {0, 5}


async def test_refused_admission_leaves_no_row(process: Process) -> None:
    """One row of the task exists already: the others are not written either."""
    await process.table.create_entity({"PartitionKey": "000", "RowKey": "task-1|step|01"})
    with pytest.raises(Exception, match="task-1"):
        await process.store.admit(pending(LINE))
    assert list(await process.rows()) == ["task-1|step|01"]


_NAMES = [StepName(f"{'n' * 29}-{number:02d}") for number in range(90)]
_WIDEST = workflow(*(step(name, via=Way.QUEUE, undo=True) for name in _NAMES), name="w" * 32)
_POLICY = SupervisionPolicy(
    threshold=3, extended_waits=(), skew=timedelta(0), start_within=timedelta(seconds=30)
)
_ROUND = 1000


def _tried(name: StepName, epoch: Epoch, fault: str) -> StepTried:
    return StepTried(
        epoch=epoch,
        scheduler=scheduler_id(TASK, epoch),
        step=name,
        start_id=started(name, epoch).start_id,
        attempts=1_000_000,
        fault=fault,
    )


async def _tell(process: Process, *events: Event) -> None:
    """Tell events at the same moment, which makes them one transaction."""
    before = process.figures.transactions
    told = await asyncio.gather(*(process.store.change(TASK, event) for event in events))
    assert all(isinstance(each, Changed) for each in told)
    assert process.figures.transactions - before <= 2


@pytest.mark.parametrize("character", ["\\", "\U0001f600", "\x00"], ids=["escaped", "wide", "control"])
async def test_every_write_is_taken(process: Process, character: str) -> None:
    """Held at last, it can be read whole, and resubmitted."""
    text = character * 100_000
    await process.store.admit(pending(_WIDEST))
    for number in range(_POLICY.threshold + 1):
        epoch, at = Epoch(number + 1), number * _ROUND
        await _tell(process, claimed(epoch, start_by=at + 300))
        complete_by = at + 500
        starts = [started(name, epoch, complete_by=complete_by, token="t" * 32) for name in _NAMES]
        await _tell(process, *starts)
        await _tell(process, *(_tried(name, epoch, text) for name in _NAMES))
        process.clock.advance(_ROUND)
        overdue = judge((await process.read(TASK)).record, process.clock.now(), _POLICY)
        assert overdue is not None
        await _tell(process, overdue)
    record = (await process.read(TASK)).record
    assert (record.task.process_state, record.task.failure_count) == (ProcessState.ERROR, _POLICY.threshold)
    assert all(0 < len((each.error or "").encode()) <= MAX_ERROR_BYTES for each in record.steps)
    await _tell(process, resubmission(record.task.epoch))
    history = (await process.read(TASK)).record.history
    assert [len(closed.steps) for closed in history] == [len(_NAMES)] * (_POLICY.threshold + 1)
    assert max(len((past.error or "").encode()) for past in history[-1].steps) <= MAX_PAST_ERROR_BYTES


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


async def _processed(process: Process) -> Stored:
    """Record a task that was resubmitted once, then completed."""
    await process.store.admit(pending(LINE))
    return await process.told(
        TASK,
        claimed(),
        started("pick"),
        failed("pick"),
        resubmission(FIRST),
        claimed(SECOND),
        *done("pick", "send", epoch=SECOND),
    )


async def _left(process: Process) -> set[str]:
    """Return the rows that remain, except the outbox, which retention does not delete."""
    return {key for key in await process.rows() if not key.startswith("!send")}


async def test_task_is_deleted_with_all_its_rows(process: Process, retention: TableTaskRetention) -> None:
    """Order, state, steps, closed epochs and index; another task's rows stay."""
    stored = await _processed(process)
    await process.store.admit(pending(LINE, TaskId("task-10")))
    others = {key for key in await process.rows() if "task-10" in key}
    assert await retention.delete(stored)
    assert await _left(process) == others
    assert await process.store.load(TASK) is None


async def test_rows_by_which_a_task_is_found_go_with_it(
    process: Process, retention: TableTaskRetention
) -> None:
    """In the same transaction, and those of another task stay."""
    findable = workflow(step("pick"), find_by=lambda parcel: ["Ada", f"weight {parcel.weight}"])
    other = TaskId("task-10")
    for task in (TASK, other):
        await process.store.admit(pending(findable, task))
    stored = await process.told(TASK, claimed(), started("pick"), completed("pick"))
    assert len([key for key in await process.rows() if key.startswith("!find|")]) == 4
    others = {key for key in await process.rows() if other in key}
    assert await retention.delete(stored)
    assert await _left(process) == others


async def test_second_deletion_of_a_task_does_nothing(
    process: Process, retention: TableTaskRetention
) -> None:
    """Of two callers, only one deletes it."""
    stored = await _processed(process)
    assert await retention.delete(stored)
    assert not await retention.delete(stored)


async def test_task_that_has_changed_stays(process: Process, retention: TableTaskRetention) -> None:
    """Its row is not the one that was read, though its index row is."""
    await process.store.admit(pending(LINE))
    before = await process.read(TASK)
    await process.told(TASK, claimed())
    rows = set(await process.rows())
    assert not await retention.delete(before)
    assert set(await process.rows()) == rows


async def test_task_with_a_long_history_is_deleted_too(
    process: Process, retention: TableTaskRetention, table: TableClient
) -> None:
    """It has more rows than a transaction takes; the task's own row is deleted last."""
    stored = await _processed(process)
    for number in range(100):
        kind = "epoch" if number % 2 else "lost"
        await table.create_entity({"PartitionKey": "000", "RowKey": f"{TASK}|{kind}|{number + 10:06d}"})
    assert await retention.delete(stored)
    assert await _left(process) == set()


async def test_rejected_messages_are_deleted_by_age(table: TableClient, groups: EntityGroups) -> None:
    """Old ones, up to a limit; each run deletes more of them."""
    clock = FakeClock()
    rejected = TableRejectedMessages(table, groups, clock=clock, figures=StoreFigures())
    for number in range(3):
        await rejected.reject("submissions", f"m-{number}", b"{", "why")
    clock.advance(3600)
    await rejected.reject("agent-replies/$DeadLetterQueue", "m-9", b"{", "why")
    before = START + timedelta(minutes=1)
    assert [await rejected.delete_before(before, 2) for _ in range(3)] == [2, 1, 0]
    [row] = [row async for row in table.list_entities()]
    assert row["MessageID"] == "m-9"


async def test_discarded_messages_are_kept_from_their_discard_on(
    table: TableClient, groups: EntityGroups
) -> None:
    """As long as any other: who discarded what, and why, is not gone at once with an old message."""
    clock = FakeClock()
    rejected = TableRejectedMessages(table, groups, clock=clock, figures=StoreFigures())
    for number in range(2):
        await rejected.reject("submissions", f"m-{number}", b"{", "why")
        [kept] = (await rejected.listed((), 9)).messages
        clock.advance(3600)
        await rejected.discard(kept.id, "olga", "a test")
    assert await rejected.delete_before(START + timedelta(minutes=61), 9) == 1
    [row] = [row async for row in table.list_entities()]
    assert row["MessageID"] == "m-1"
