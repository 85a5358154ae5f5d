"""Runs that crash, are delivered twice, or meet faults of the table and of single tasks."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from functions.agents.agent_call import Call, RefusedError
from functions.core.definition.step_definition import QueueStep, Results, Step, WorkflowStep
from functions.core.derive import ProcessState, derive
from functions.core.record import Message, MessageKind, OperationState, TaskRecord
from functions.core.task_events import Due
from functions.messaging.agent_messages import Finding
from tests.fakes.simulated_table import TableFault
from tests.unit.scheduler.steps import RUN, chain, check_calls, once, raising, step
from tests.unit.scheduler.world import Parcel, Process, Receipt, World, request, workflow
from tests.unit.storage.virtual import virtual

MONTH = QueueStep("month", request=request, result=Receipt, complete_within=30 * 86_400, undo=True)


def delivery(*, is_refused: bool) -> World:
    """Return a world with a delivery of four steps, of which one must not be repeated and one is queued."""
    reserve = step("reserve")
    pay = once("pay", reserve, agent="finder")
    ship = QueueStep("ship", request=request, needs=[pay], result=Receipt, complete_within=30, undo=True)
    world = World(workflow(reserve, pay, ship, step("mail", ship, undo=False)))
    world.services.findings["pay"] = Finding.DONE
    if is_refused:
        world.services.behaviour["mail"] = raising(RefusedError("no"))
    return world


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("delivers_again", [True, False])
@pytest.mark.parametrize("point", range(1, 71))
@virtual
async def test_task_ends_after_a_crash_at_any_request(
    point: int, *, delivers_again: bool, is_refused: bool
) -> None:
    """The next process repeats no step that must not be repeated, and sends one body for each effect key."""
    world = delivery(is_refused=is_refused)
    world.delivers_again = delivers_again
    world.process.crash_at = point
    await world.on_live_process(lambda _: world.admit("t1", reply_to="replies"))
    record = await world.until_rest("t1", seconds=300)
    has_crashed = world.process.crash_at is None
    assert has_crashed is (point < 70) or 20 < point < 70  # the points cover the whole task
    check_calls(world)
    state = ProcessState.COMPENSATED if is_refused else ProcessState.PROCESSED
    assert (derive(record).state, record.failures <= 1) == (state, True)
    await asyncio.sleep(15)
    await world.sweep()
    assert world.table.keys("!send|") == []
    sent = {message.kind for message in world.messages if isinstance(message, Message)}
    end = MessageKind.COMPENSATED if is_refused else MessageKind.COMPLETED
    assert {MessageKind.RECEIVED, end} <= sent


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("point", range(1, 60))
@virtual
async def test_crash_at_any_request_loses_no_child(point: int, *, is_refused: bool) -> None:
    """Neither its start, nor its end, nor its cancellation."""
    child = WorkflowStep("child", workflow="c", request=lambda *_: {"items": []}, complete_within=300)
    inner = workflow(step("book"), name="c", output=lambda *_: {"number": 5})
    world = World(workflow(child, step("mail", child, undo=False)), inner)
    if is_refused:
        world.services.behaviour["mail"] = raising(RefusedError("no"))
    world.process.crash_at = point
    await world.on_live_process(lambda _: world.admit("t1"))
    record = await world.until_rest("t1")
    state = ProcessState.COMPENSATED if is_refused else ProcessState.PROCESSED
    found = await world.record(record.order.child("child", 0))
    assert (derive(record).state, derive(found).state) == (state, state)
    check_calls(world)
    for _ in range(2):  # the first one may cause further messages
        await asyncio.sleep(15)
        await world.sweep()
    assert world.table.keys("!send|") == []


@virtual
async def test_activity_that_is_delivered_twice_at_once() -> None:
    """Both run to their end; a payment is made once, and each start has one owner."""
    steps = [step("s0"), once("pay"), *(step(f"t{n}") for n in range(4))]
    world = World(workflow(*steps))
    world.delivers = False
    await world.admit("t1")
    other = Process(world)
    results = await asyncio.gather(world.process.runs.run_agents(RUN), other.runs.run_agents(RUN))
    assert set(results) == {"done"}
    record = await world.record("t1")
    assert derive(record).state is ProcessState.PROCESSED
    check_calls(world)
    assert len({call.start_id for call in world.services.calls}) == len(world.services.calls)


@pytest.mark.parametrize("point", range(1, 9))
@virtual
async def test_request_of_a_run_whose_instance_is_lost_is_sent(point: int) -> None:
    """Another run sends it, long before its deadline."""
    world = World(workflow(MONTH))
    world.delivers_again, world.replies_after = False, None
    await world.admit("t1")
    world.process.crash_at = world.process.requests + point
    for _ in range(60):
        await asyncio.sleep(10)
        await world.sweep()
    record = await world.record("t1")
    assert len({message.message_id for message in world.requests}) == 1
    assert (record.do("month").send_by, record.failures <= 1) == (None, True)


@virtual
async def test_request_whose_start_was_recorded_in_doubt_is_sent() -> None:
    """The start is written, but the answers of the table are lost until the run ends."""
    world = World(workflow(MONTH), run_seconds=60)
    await world.admit("t1")
    world.table.fault, world.table.read_fault = lambda: TableFault.NO_ANSWER, lambda: True
    await asyncio.sleep(180)
    assert (world.requests, world.activities) == ([], [(RUN, "done")])
    world.table.fault, world.table.read_fault = lambda: None, lambda: False
    assert derive(await world.until_rest("t1")).state is ProcessState.PROCESSED


@virtual
async def test_run_without_a_usable_task_is_done(caplog: pytest.LogCaptureFixture) -> None:
    """It raises nothing for a wrong id, another epoch or a corrupt task, and the other task is processed."""
    world = World(workflow(*chain(2)))
    world.delivers = False
    await world.admit("t1")
    await world.admit("t2")
    world.table.rows["000", "t1|task"]["Facts"] = "{"
    runs = Process(world).runs
    for scheduler in ("", "t1", "t1.x.1", "t9.1.1", "t2.7.1"):
        assert await runs.run_agents(scheduler) == "done"
    assert world.services.calls == []
    assert set(await asyncio.gather(runs.run_agents(RUN), runs.run_agents("t2.1.1"))) == {"done"}
    assert "t1|task" in caplog.text
    assert derive(await world.record("t2")).state is ProcessState.PROCESSED


@virtual
async def test_defect_at_one_step_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """An unexpected error is logged with its traceback."""
    world = World(workflow(step("s0"), step("s1")))

    async def report(name: str, *_: object) -> None:
        if name == "s0":
            raise KeyError("defect")

    world.process.gates.report = report  # type: ignore[method-assign,assignment]
    await world.admit("t1")
    await asyncio.sleep(5)
    assert "KeyError" in caplog.text
    assert (await world.record("t1")).do("s1").state is OperationState.DONE


@virtual
async def test_broken_function_stops_its_own_task_only() -> None:
    """It ends with a question for an operator, and calls nothing."""

    def broken(parcel: Parcel, _results: Results) -> dict[str, object]:
        return {"first": [] if not parcel.items else parcel.items[9]}

    world = World(workflow(Step("s0", request=broken, result=Receipt)))
    await world.admit("t1", items=[1])
    await world.admit("t2")
    record = await world.until_rest("t1")
    assert (derive(record).state, "s0: IndexError" in str(record.error)) == (ProcessState.ERROR, True)
    assert derive(await world.record("t2")).state is ProcessState.PROCESSED
    assert [call.effect_key for call in world.services.calls] == ["t2.r1/s0/do"]


@virtual
async def test_run_of_an_older_epoch_changes_nothing() -> None:
    """The outcome of a call that began in the previous epoch is rejected."""
    world = World(workflow(step("s0", complete_within=20)))
    release = asyncio.Event()

    async def wait(_call: Call) -> str:
        if len(world.services.calls) == 1:
            await release.wait()
        return '{"number":1}'

    world.services.behaviour["s0"] = wait
    await world.admit("t1")
    await asyncio.sleep(1)
    due = Due(may_recover=True)
    await Process(world, ahead=timedelta(seconds=30)).change("t1", due)
    await asyncio.sleep(5)
    record: TaskRecord = await world.record("t1")
    assert (record.epoch, derive(record).state) == (2, ProcessState.PROCESSED)
    release.set()
    await asyncio.sleep(5)
    assert await world.record("t1") == record
