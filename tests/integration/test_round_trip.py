"""What is recorded is what is read: every field, to the microsecond."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.events import MessageLost
from functions.pattern.identity import Epoch, SchedulerId, StartId, TaskId
from functions.pattern.records import Order, SentAnnouncement, Task, TaskRecord
from functions.pattern.states import AnnouncementKind, Direction, ProcessState, StepState, Way
from functions.pattern.step_records import StepRecord
from functions.pattern.store_ports import Admission, Changed
from tests.fakes.clock import START
from tests.fakes.interventions import cancellation, done, resubmission
from tests.fakes.tasks import after, claimed, completed, pending, started, told
from tests.fakes.workflows import BIRTH, LINE, TASK, step, workflow
from tests.integration.processes import Process

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
