"""Replies, events, timers, child tasks and messages: each is recorded, and ready steps get a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import create_model

from functions.core.definition.step_definition import (
    BaseStep,
    EventStep,
    QueueStep,
    Results,
    Step,
    TimerStep,
    WorkflowStep,
)
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry, search_key
from functions.core.derive import ProcessState, WaitingFor, derive
from functions.core.record import (
    Message,
    MessageKind,
    NotDeployedError,
    OperationState,
    TaskRecord,
)
from functions.core.rules import admit
from functions.core.task_events import Cancelled, Canceller, EventReceived, Rejection
from functions.messaging.task_messages import ReleaseRequest, RunRequest, SchedulerMessage, WakeRequest
from functions.storage.table_contract import CorruptRowError, NoSuchTaskError, TransientStorageError
from functions.storage.table_maintenance import delete_finished
from functions.workflow import days
from tests.fakes.simulated_table import TableFault
from tests.fakes.storage_process import virtual_now
from tests.unit.scheduler.world import Parcel, Process, Receipt, World, request, workflow
from tests.unit.storage.virtual import virtual

SHIP = QueueStep("ship", request=request, result=Receipt, complete_within=60, undo=True)


def mail(*needs: BaseStep[Any]) -> Step[Any]:
    """Return a step that needs others."""
    return Step("mail", request=request, needs=needs, result=Receipt)


async def waiting(world: World, task: str = "t1") -> TaskRecord:
    """Admit a task and return its record when its first run has ended."""
    await world.admit(task)
    await asyncio.sleep(3)
    return await world.record(task)


# Replies


@virtual
async def test_reply_starts_the_next_run() -> None:
    """The run of the first step has ended; the reply requests the one of the second step."""
    world = World(workflow(SHIP, mail(SHIP)))
    await world.admit("t1")
    record = await world.until_rest("t1")
    assert derive(record).state is ProcessState.PROCESSED
    assert [instance for instance, _ in world.activities] == ["t1.1.1", "t1.1.2"]
    assert record.do("ship").result == '{"number":9}'
    started_at = record.do("ship").started_at
    assert world.process.gates.replies == [("queue:ship", started_at, True)]


@pytest.mark.parametrize("is_idempotent", [True, False])
@virtual
async def test_late_reply(*, is_idempotent: bool) -> None:
    """It counts only for a step that must not be repeated. It is counted at the gate in any case."""
    ship = QueueStep(
        "ship", request=request, result=Receipt, complete_within=60, idempotent=is_idempotent, undo=True
    )
    world = World(workflow(ship, on_failure="keep"))
    world.replies_after = None
    await waiting(world)
    await asyncio.sleep(70)
    if not is_idempotent:
        await world.sweep()
        assert (await world.record("t1")).do("ship").state is OperationState.UNKNOWN
    applied = await world.reply(world.requests[0])
    assert applied.rejection is (Rejection.LATE if is_idempotent else None)
    state = OperationState.RUNNING if is_idempotent else OperationState.DONE
    assert (await world.record("t1")).do("ship").state is state
    assert len(world.process.gates.replies) == 1


@virtual
async def test_reply_of_an_earlier_start_changes_nothing() -> None:
    """After a recovery only the reply to the newest request counts; its step may have ended."""
    world = World(workflow(SHIP))
    world.replies_after = None
    await waiting(world)
    await asyncio.sleep(70)
    await world.sweep()
    await asyncio.sleep(3)
    first, second = world.requests
    assert (first.effect_key, first.request) == (second.effect_key, second.request)
    assert (await world.reply(first)).rejection is Rejection.STALE_EPOCH
    assert (await world.reply(second, epoch=1)).rejection is Rejection.STALE_EPOCH
    assert (await world.reply(first, epoch=2)).rejection is Rejection.OTHER_START
    assert (await world.reply(second, step="other")).rejection is Rejection.NOT_OPEN
    assert (await world.reply(first, outcome="not_taken", result=None)).rejection is Rejection.STALE_EPOCH
    assert world.process.gates.replies[0] == ("queue:ship", None, True)
    assert world.process.gates.replies[-1] == ("queue:ship", None, True)
    assert (await world.reply(second)).rejection is None
    assert (await world.reply(second)).record.do("ship").state is OperationState.DONE


@virtual
async def test_request_that_was_not_taken_is_deferred() -> None:
    """The gate of the queue closes, also if the reply comes again, and no failure is counted."""
    world = World(workflow(SHIP))
    world.replies_after = None
    record = await waiting(world)
    for _ in range(2):
        applied = await world.reply(world.requests[0], outcome="not_taken", result=None, error="too late")
    do = applied.record.do("ship")
    assert (do.state, do.gate, applied.record.failures) == (OperationState.NOT_STARTED, "queue:ship", 0)
    assert world.process.gates.replies == [("queue:ship", record.do("ship").started_at, False)] * 2


@virtual
async def test_reply_for_a_deleted_or_corrupt_task_is_an_error() -> None:
    """The first has no effect any more; the second is delivered again, and becomes a dead letter.

    A reply that is not recorded within the lock of its message is delivered again.
    """
    world = World(workflow(SHIP))
    world.replies_after = None
    await waiting(world)
    await waiting(world, "t2")
    with pytest.raises(NoSuchTaskError):
        await world.reply(world.requests[0].model_copy(update={"task_id": "t9"}))
    world.table.rows["000", "t1|task"]["Facts"] = "{"
    world.processes = [Process(world)]
    with pytest.raises(CorruptRowError, match="t1"):
        await world.reply(world.requests[0])
    world.table.fault, began_at = lambda: TableFault.NOT_SENT, virtual_now()
    with pytest.raises(TransientStorageError):
        await world.reply(world.requests[1])
    assert virtual_now() - began_at < timedelta(seconds=25)
    world.table.fail_next()
    assert (await world.reply(world.requests[1])).rejection is None


# Events from outside

APPROVAL = EventStep("approval", event=Receipt, complete_within=600)


@pytest.mark.parametrize("kind", ["reply", "event", "timer"])
@virtual
async def test_receiver_starts_no_step(kind: str) -> None:
    """Only a run does. Without it, the step that became ready waits for its pick-up."""
    awaited: BaseStep[Any] = {"reply": SHIP, "event": APPROVAL, "timer": departure(20)}[kind]
    world = World(workflow(awaited, mail(awaited)))
    world.replies_after = None
    await waiting(world)
    world.delivers = False
    if kind == "reply":
        await world.reply(world.requests[0])
    elif kind == "event":
        await world.process.change("t1", EventReceived(step="approval", body='{"number":4}', who="boss"))
    await asyncio.sleep(25)
    record = await world.record("t1")
    assert record.do(awaited.name).state is OperationState.DONE
    seen = (record.do("mail").state, derive(record).waiting_for)
    assert seen == (OperationState.NOT_STARTED, WaitingFor.PICK_UP)
    assert world.services.calls == []


@virtual
async def test_reply_and_event_count_for_the_newest_task_of_an_id() -> None:
    """They are delivered to processes that have the earlier task in their caches."""
    note = create_model("Note", text=(str, ...))
    earlier = workflow(EventStep("approval", event=note, complete_within=600))
    newest = workflow(SHIP, APPROVAL, name="v")
    world = World(earlier, newest)
    world.delivers, world.replies_after = False, None
    await world.admit("t1")
    other, new = Process(world), Process(world)
    await other.storage.cached("t1")
    await new.change("t1", Cancelled(by=Canceller.CALLER, who="me", reason="x"))
    assert (await delete_finished(new.storage, 0, virtual_now() + timedelta(days=40))).deleted == 1
    order = newest.new_order("t1", "r2", "{}", virtual_now(), submitter="me")
    await new.storage.admit(admit(order, virtual_now(), new.settings))
    await new.runs.run_agents("t1.1.1")
    await other.change("t1", EventReceived(step="approval", body='{"number":4}', who="boss"))
    await world.reply(world.requests[0])
    record = await world.record("t1")
    assert (record.step("approval").event, record.do("ship").result) == ('{"number":4}', '{"number":9}')


# Timers


def departure(seconds: float) -> TimerStep:
    """Return a timer that ends some seconds after the start."""

    def until(_parcel: Parcel, _results: Results) -> datetime:
        return virtual_now().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(seconds=seconds)

    return TimerStep("departure", until=until)


@virtual
async def test_timer_ends_at_its_message() -> None:
    """The message is sent once, with the time of the wait, and starts the next run."""
    timer = departure(100)
    world = World(workflow(timer, mail(timer)))
    await world.admit("t1")
    await asyncio.sleep(99)
    record = await world.record("t1")
    assert derive(record).waiting_for is WaitingFor.TIMER
    [wake] = [message for message in world.messages if isinstance(message, WakeRequest)]
    assert wake.at == wake.not_before == record.do("departure").complete_by
    await asyncio.sleep(2)
    assert derive(await world.record("t1")).state is ProcessState.PROCESSED
    assert len(world.activities) == 2


@virtual
async def test_timer_of_a_year_costs_nothing_meanwhile() -> None:
    """Neither a run nor a write of the task: it ends in its first epoch, without a failure."""
    timer = departure(days(365))
    world = World(workflow(timer, mail(timer)))
    await waiting(world)
    await asyncio.sleep(40)
    await world.sweep()  # it moves the index row
    written = len(world.table.transactions)
    for _ in range(52):
        await asyncio.sleep(days(7))
        await world.sweep()
    sweeps = [[change.key for change in changes] for changes in world.table.transactions[written:]]
    assert (sweeps, len(world.activities)) == ([["sweep"]] * 52, 1)
    await asyncio.sleep(days(1))
    record = await world.record("t1")
    assert (derive(record).state, record.epoch, record.failures) == (ProcessState.PROCESSED, 1, 0)


@virtual
async def test_timer_message_that_is_early_late_or_repeated() -> None:
    """An early one is sent again with another id; the others change nothing."""
    timer = departure(100)
    world = World(workflow(timer))
    await world.admit("t1")
    await asyncio.sleep(98)
    [wake] = [message for message in world.messages if isinstance(message, WakeRequest)]
    world.delivers = False
    await world.process.receivers.receive(wake)
    again = world.messages[-1]
    assert isinstance(again, WakeRequest)
    assert (again.attempt, again.id != wake.id) == (1, True)
    assert wake.at < again.not_before <= wake.at + timedelta(seconds=2)
    assert (await world.record("t1")).do("departure").state is OperationState.RUNNING
    await asyncio.sleep(4)
    count = len(world.messages)
    assert derive(await world.record("t1")).state is ProcessState.PROCESSED
    for message in (wake, again):
        await world.process.receivers.receive(message)
    assert len(world.messages) == count


@virtual
async def test_lost_timer_message_is_replaced_by_the_sweep() -> None:
    """The due index is the backup."""
    timer = departure(100)
    world = World(workflow(timer))
    world.delivers = False
    await world.admit("t1")
    await world.process.runs.run_agents("t1.1.1")
    await asyncio.sleep(120)
    await world.sweep()
    assert derive(await world.record("t1")).state is ProcessState.PROCESSED


@virtual
async def test_message_of_an_ended_wait_is_not_sent_again() -> None:
    """The task waits for another time, which has its own message."""
    first = EventStep("first", event=Receipt, complete_within=600)
    second = EventStep("second", event=Receipt, complete_within=600, needs=[first])
    world = World(workflow(first, second))
    await waiting(world)
    await world.process.change("t1", EventReceived(step="first", body="{}", who="boss"))
    await asyncio.sleep(3)
    wakes = [message for message in world.messages if isinstance(message, WakeRequest)]
    assert len(wakes) == 2
    await world.process.receivers.receive(wakes[0])
    assert [message for message in world.messages if isinstance(message, WakeRequest)] == wakes


# Child tasks


def family(**options: Any) -> World:
    """Return a world whose first workflow has a step that is a task of the second one."""
    child = WorkflowStep(
        "child", workflow="c", request=lambda *_: {"items": [1]}, complete_within=300, **options
    )
    return World(
        workflow(child, mail(child)),
        workflow(
            SHIP,
            name="c",
            output=lambda *_: {"number": 5},
            find_by=lambda parcel: map(str, parcel.items),
        ),
    )


async def with_undelivered_start() -> tuple[World, Message]:
    """Return a world that delivers no message, and the one that starts the child of `t1`."""
    world = family()
    world.delivers = False
    await world.admit("t1")
    await world.process.runs.run_agents("t1.1.1")
    [start] = [each for each in world.messages if isinstance(each, Message)]
    return world, start


async def child_of(world: World) -> TaskRecord:
    """Return the record of the child of `t1`."""
    return await world.record((await world.record("t1")).order.child("child"))


class _Weighed(Parcel):
    weight: int


@virtual
async def test_child_starts_in_the_newest_version_that_accepts_its_request() -> None:
    """The request was recorded before a version with a stricter model was deployed beside the old one."""
    world, start = await with_undelivered_start()
    stricter = Workflow("c", payload=_Weighed, steps=[SHIP], version=2, on_failure="compensate")
    world.registry = WorkflowRegistry([*world.registry, stricter])
    world.processes, world.delivers = [Process(world)], True
    await world.process.receivers.receive(start)
    parent = await world.until_rest("t1")
    assert ((await child_of(world)).order.version, derive(parent).state) == (1, ProcessState.PROCESSED)


@virtual
async def test_child_is_processed_and_its_parent_continues() -> None:
    """Its output is the result of the step, its submitter the parent's. Operators find it by its texts.

    Messages that are delivered twice change nothing.
    """
    world = family(result=Receipt)
    await world.admit("t1", correlation_id="c-7", traceparent="00-1-2-01")
    parent = await world.until_rest("t1")
    child = await child_of(world)
    assert (derive(parent).state, derive(child).state) == (ProcessState.PROCESSED, ProcessState.PROCESSED)
    assert (parent.do("child").result, child.order.payload) == ('{"number":5}', '{"items":[1]}')
    assert (child.order.submitter, child.order.parent, child.order.parent_step) == ("me", "t1", "child")
    assert (child.order.correlation_id, child.order.traceparent) == ("c-7", "00-1-2-01")
    assert len(world.table.keys(f"!find|{search_key('1')}|")) == 1
    assert world.table.keys("!send|") == []
    calls = len(world.services.calls)
    for message in [each for each in world.messages if isinstance(each, Message)]:
        await world.process.receivers.receive(message)
    await asyncio.sleep(10)
    assert (await world.record("t1"), await child_of(world)) == (parent, child)
    assert len(world.services.calls) == calls


@virtual
async def test_repeated_start_of_a_child_requests_its_lost_run() -> None:
    """The process crashed between the admission of the child and the request of its first run."""
    world, start = await with_undelivered_start()
    await world.process.receivers.receive(start)
    world.messages.clear()
    await world.process.receivers.receive(start)
    assert [type(message) for message in world.messages] == [RunRequest]


@pytest.mark.parametrize(
    ("output", "error"),
    [({"number": "x"}, "number"), (None, "no output: ZeroDivisionError: division by zero")],
    ids=["rejected by the step", "not made"],
)
@virtual
async def test_output_that_is_no_result_is_a_question(output: object, error: str) -> None:
    """The parent stops in `Error`, although no other step reads the result."""
    child = WorkflowStep(
        "child", workflow="c", request=lambda *_: {"items": [1]}, complete_within=300, result=Receipt
    )
    inner = workflow(SHIP, name="c", output=lambda *_: output or 1 / 0)
    world = World(workflow(child), inner)
    await world.admit("t1")
    parent = await world.until_rest("t1")
    assert parent.do("child").state is OperationState.DONE_WITHOUT_RESULT
    assert error in (parent.error or "")


@virtual
async def test_reason_of_a_refused_child_is_the_error_of_its_step() -> None:
    """The child is undone."""
    world = family()
    world.replies_after = None
    await waiting(world)
    world.replies_after = 1
    await world.reply(world.requests[0], outcome="refused", result=None, error="sold out")
    do = (await world.until_rest("t1")).do("child")
    assert (do.state, "sold out" in (do.error or "")) == (OperationState.REFUSED, True)


@virtual
async def test_child_whose_search_texts_fail_is_carried_out_without_them() -> None:
    """Its parent would wait otherwise."""
    child = WorkflowStep("child", workflow="c", request=lambda *_: {"items": [1]}, complete_within=300)
    world = World(workflow(child), workflow(SHIP, name="c", find_by=lambda parcel: parcel.none))
    await world.admit("t1")
    assert derive(await world.until_rest("t1")).state is ProcessState.PROCESSED


@virtual
async def test_child_belongs_to_the_newest_task_of_an_id() -> None:
    """Its start and its end are delivered to a process that has the earlier task in its cache.

    The start of a child of the earlier task was a dead letter, and has no effect.
    """
    world = family(result=Receipt)
    world.delivers = False
    outdated, other = world.process, Process(world)
    earlier = await world.admit("t1")
    await other.change("t1", Cancelled(by=Canceller.CALLER, who="me", reason="x"))
    assert (await delete_finished(other.storage, 0, virtual_now() + timedelta(days=40))).deleted == 1
    again = replace(earlier.order, run_id="r2", submitter="you")
    await other.storage.admit(admit(again, virtual_now(), other.settings))
    await other.runs.run_agents("t1.1.1")
    [start] = [each for each in world.messages if isinstance(each, Message)]
    dead = replace(start, id=start.id.replace(".r2.", f".{earlier.order.run_id}."), to="c-9")
    assert dead.id != start.id
    await outdated.receivers.receive(dead)
    assert world.table.keys("c-") == []
    await outdated.receivers.receive(start)
    assert (await child_of(world)).order.submitter == "you"
    await other.runs.run_agents(f"{start.to}.1.1")
    await asyncio.sleep(5)
    [_, end] = [each for each in world.messages if isinstance(each, Message)]
    await outdated.receivers.receive(end)
    assert (await world.record("t1")).do("child").state is OperationState.DONE


@pytest.mark.parametrize("kind", [None, "start child", "cancel child", "child ended"])
@virtual
async def test_child_is_undone_with_its_parent(kind: str | None) -> None:
    """A message that was lost is sent again: ten deliveries failed, while the state store was down."""
    world = family()
    deliver, lost = world.post, list[object]()

    def post(message: SchedulerMessage) -> None:
        is_lost = isinstance(message, Message) and message.kind == kind and not lost
        (lost.append if is_lost else deliver)(message)

    world.post = post  # type: ignore[method-assign]
    await world.admit("t1")
    assert derive(await world.until_rest("t1")).state is ProcessState.PROCESSED
    await world.process.change("t1", Cancelled(by=Canceller.OPERATOR, who="op", reason="wrong order"))
    parent = await world.until_rest("t1")
    child = await child_of(world)
    assert (derive(parent).state, derive(child).state) == (ProcessState.COMPENSATED, ProcessState.COMPENSATED)
    assert len(lost) == (kind is not None)
    assert [call.direction for call in world.services.calls] == ["do"]
    assert [message.direction for message in world.requests] == ["do", "undo"]
    await asyncio.sleep(15)
    await world.sweep()
    assert world.table.keys("!send|") == []


@virtual
async def test_child_that_is_cancelled_before_it_began_never_starts() -> None:
    """Its start arrives after its cancellation."""
    world, start = await with_undelivered_start()
    await world.process.storage.forget([start])
    world.delivers = True
    await world.process.change("t1", Cancelled(by=Canceller.OPERATOR, who="op", reason="wrong order"))
    parent = await world.until_rest("t1")
    assert derive(parent).state is ProcessState.COMPENSATED
    await world.process.receivers.receive(start)
    await asyncio.sleep(5)
    child = await child_of(world)
    assert (derive(child).state, child.reason) == (ProcessState.COMPENSATED, None)
    assert (world.requests, derive(await world.record("t1")).state) == ([], ProcessState.COMPENSATED)


@virtual
async def test_child_that_is_admitted_during_its_cancellation_is_undone() -> None:
    """The start arrives at another process after the cancellation found no task."""
    world, start = await with_undelivered_start()
    body = {**start.body}
    cancel = Message(
        kind=MessageKind.CANCEL_CHILD, id="cancel", task="t1", at=start.at, to=start.to, body=body
    )
    other = Process(world)
    admit = other.storage.admit

    async def admit_later(record: TaskRecord) -> tuple[TaskRecord, bool]:
        await world.process.receivers.receive(start)
        return await admit(record)

    other.storage.admit = admit_later  # type: ignore[method-assign,assignment]
    await other.receivers.receive(cancel)
    child = await child_of(world)
    assert child.order.version == 1
    assert child.direction == "undo"
    assert derive(child).state is ProcessState.COMPENSATED


@virtual
async def test_child_whose_workflow_is_not_deployed_is_tried_again() -> None:
    """Another instance may have it. If the parent is not deployed either, no deadline of it is decided."""
    world, start = await with_undelivered_start()
    world.registry = WorkflowRegistry([workflow(SHIP, name="other")])
    world.processes = [Process(world)]
    with pytest.raises(NotDeployedError, match="c is not deployed"):
        await world.process.receivers.receive(start)
    await asyncio.sleep(400)
    await world.sweep()
    parent = await world.record("t1")
    assert (derive(parent).waiting_for, parent.direction) == (WaitingFor.SUSPENDED, "do")


# Other messages


@virtual
async def test_messages_are_passed_to_their_parts() -> None:
    """A run request starts an instance; a link of a release chain goes to the gates; others are wrong."""
    world = World(workflow(SHIP))
    started = list[RunRequest]()
    world.start_instance = started.append  # type: ignore[method-assign, assignment]
    release = AsyncMock()
    world.process.receivers.releases.release = release  # type: ignore[method-assign]
    run = RunRequest(task="t1", epoch=1, run=2)
    await world.process.receivers.receive(run)
    await world.process.receivers.receive(ReleaseRequest(gate="a", link=3, at=virtual_now()))
    assert started == [run]
    release.assert_awaited_once_with("a", 3)
    alert = Message(kind=MessageKind.ALERT, id="m", task="t1", at=virtual_now())
    with pytest.raises(ValueError, match="another receiver"):
        await world.process.receivers.receive(alert)
    with pytest.raises(NoSuchTaskError):
        await world.process.receivers.receive(
            WakeRequest(task="t9", at=virtual_now(), not_before=virtual_now())
        )
    ended = Message(kind=MessageKind.CHILD_ENDED, id="m", task="t9", at=virtual_now())
    await world.process.receivers.receive(ended)
    assert (await world.process.storage.load("t9")) is None
