"""`run_steps` claims, records, calls and records until the task ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.definition import Json, Workflow
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.events import DecisionDue
from functions.pattern.identity import SchedulerId, StartId, StepName
from functions.pattern.ports import AgentCall
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, Remedy, StepState, Way
from functions.pattern.step_records import StepRecord
from functions.pattern.transitions import apply
from functions.scheduler.progress import Progress
from tests.fakes.agents import raising
from tests.fakes.interventions import done, recovered, refused, resubmission
from tests.fakes.runners import limits
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import DIAMOND, LINE, TASK, awaiting, step, trip, workflow
from tests.unit.scheduler.bench import Bench, going_on, over, refuse_results


@pytest.fixture
def bench() -> Bench:
    """Make a bench on which a task of two steps waits for its Scheduler."""
    return Bench(LINE)


async def test_task_is_claimed_and_run_to_its_end(bench: Bench) -> None:
    """In one run: the claim, and each outcome, come with the starts that follow from them."""
    writes = bench.store.writes
    assert await bench.run() == over("Processed")
    assert bench.agents.steps == ["pick", "send"]
    assert bench.state is ProcessState.PROCESSED
    assert bench.store.writes == writes + 3


async def test_start_is_recorded_before_the_service_is_called(bench: Bench) -> None:
    """Record, then send: a crash during the call is found by its complete-by; the start is this run's."""
    seen: list[StepRecord] = []

    def look() -> Json:
        seen.append(bench.step("pick"))
        return {}

    bench.agents.behaviours["pick"] = look
    await bench.run(3)
    [pick] = seen
    assert (pick.state, pick.complete_by, pick.epoch) == (StepState.RUNNING, after(10), FIRST)
    assert (pick.activity, pick.start_id) == (3, StartId("id-0000000000001"))
    assert bench.store.record(TASK).task.due_at == after(10)


async def test_agent_gets_request_key_and_deadline(bench: Bench) -> None:
    """The request is made of the payload and of the results before it."""

    def take_five_seconds() -> Json:
        bench.clock.advance(5)
        return {"bin": "Ä7"}

    bench.agents.behaviours["pick"] = take_five_seconds
    await bench.run()
    assert bench.agents.calls[1] == AgentCall(
        task=TASK,
        effect_key=bench.agents.calls[1].effect_key,
        request={"weight": 3, "after": ["pick"]},
        complete_by=after(15),
        complete_within=10,
    )
    assert [call.effect_key for call in bench.agents.calls] == [
        "task-1.0a1b2c3d/pick/do",
        "task-1.0a1b2c3d/send/do",
    ]
    assert bench.step("pick").result == '{"bin":"Ä7"}'.encode()


async def test_refusal_makes_the_task_an_error_with_the_reason(bench: Bench) -> None:
    """The reason is the service's; nothing follows."""
    bench.agents.behaviours["pick"] = raising(PermanentError("pick answered 400"))
    assert await bench.run() == over("Error")
    assert bench.store.record(TASK).task.last_error == "pick: pick answered 400"
    assert bench.states == {"pick": "Failed", "send": "NotStarted"}


@pytest.mark.parametrize("error", [None, PermanentError("no")], ids=["success", "refusal"])
async def test_late_outcome_changes_nothing(bench: Bench, error: Exception | None) -> None:
    """Neither a success nor a refusal counts after complete-by."""

    def be_late() -> Json:
        bench.clock.advance(10.1)
        if error is not None:
            raise error
        return {}

    bench.agents.behaviours["pick"] = be_late
    assert await bench.run() == going_on()
    assert bench.states == {"pick": "Running", "send": "NotStarted"}


async def test_outcome_of_an_older_epoch_changes_nothing(bench: Bench) -> None:
    """The task was recovered while the service was working: its Scheduler is told that it is over."""

    def recover() -> Json:
        bench.store.put(told(recovered(bench.store.record(TASK)), claimed(SECOND)))
        return {"from": "the past"}

    bench.agents.behaviours["pick"] = recover
    assert await bench.run() == over("stale epoch")
    assert bench.step("pick").result is None
    assert bench.agents.steps == ["pick"]


@pytest.mark.parametrize("epoch", [1, 2])
async def test_outcome_is_recorded_until_complete_by(bench: Bench, epoch: int) -> None:
    """And the claim until a step must have started: a blip of the store is outlived, not an expiry."""
    if epoch == 2:
        bench.store.put(recovered(told(pending(LINE), claimed(), *done("pick"))))
    start = bench.clock.now()
    bench.store.limits.clear()
    await bench.run(epoch=epoch)
    seconds = [(limit - start).total_seconds() for limit in bench.store.limits if limit is not None]
    assert seconds == [30, 10, 10][: len(bench.store.limits)]
    assert len(seconds) == 4 - epoch


async def test_store_that_fails_expires_nothing_but_the_step(bench: Bench) -> None:
    """Past its time, an outcome is left to recovery."""

    def fail_the_store() -> Json:
        bench.store.failure = TransientError("503")
        return {}

    bench.agents.behaviours["pick"] = fail_the_store
    assert await bench.run() == going_on()


async def test_task_is_held_for_an_outcome_that_the_store_refuses(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state store refuses the rows, and would again; an operator sees why."""
    refuse_results(bench.store, monkeypatch)
    assert await bench.run() == over("Error")
    assert (bench.store.record(TASK).task.last_error or "").endswith("PropertyValueTooLarge")
    assert bench.states == {"pick": "Unrecorded", "send": "NotStarted"}


async def test_first_read_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Scheduler does not give up its task because the store did not answer once."""
    known, faults = bench.store.known, [TransientError("503")]

    async def fail_once(task: object) -> object:
        if faults:
            raise faults.pop()
        return await known(task)  # type: ignore[arg-type]

    monkeypatch.setattr(bench.store, "known", fail_once)
    assert await bench.run() == over("Processed")


async def test_older_epoch_claims_nothing(bench: Bench) -> None:
    """The request of an old attempt came late."""
    bench.store.put(recovered(pending(LINE)))
    writes = bench.store.writes
    assert await bench.run() == over("stale epoch")
    assert (bench.store.writes, bench.agents.calls) == (writes, [])
    # Task that is held by another is left alone.
    held = told(pending(LINE), claimed())
    bench.store.put(replace(held, task=replace(held.task, locked_by=SchedulerId("another"))))
    assert await bench.run() == over("not the holder")
    # Unknown task is over.
    assert await bench.runs.run({"task": "other", "epoch": 1, "number": 1, "share": False}) == over(
        "no such task"
    )


async def test_recovered_task_goes_on_after_its_completed_steps() -> None:
    """The step that was running is called again, under the same key."""
    bench = Bench(DIAMOND)
    lost = told(pending(), claimed(), started("open"), completed("open"), started("left"))
    bench.store.put(recovered(lost))
    assert await bench.run(epoch=2) == over("Processed")
    assert sorted(bench.agents.steps[:2]) == ["left", "right"]
    assert bench.agents.steps[2:] == ["close"]


def _undoing() -> Bench:
    """Let a trip's car be refused, after flight and hotel were booked; the hotel can't be undone."""
    bench = Bench(trip())
    record = told(pending(trip()), claimed(), *done("flight", "hotel"), started("car"), failed("car"))
    bench.store.put(record)
    return bench


async def test_undo_runs_in_reverse_order_under_its_own_keys() -> None:
    """One after another; the task is `Compensated` after the last."""
    bench = _undoing()
    assert await bench.run(epoch=2) == over("Compensated")
    assert bench.agents.steps == ["car undo", "flight undo"]
    assert bench.step("flight").state is StepState.UNDONE


async def test_refused_undo_makes_the_task_an_error_that_names_the_step() -> None:
    """A step that is not undone is left for an operator."""
    bench = _undoing()
    bench.agents.behaviours["car"] = raising(PermanentError("no refunds"))
    assert await bench.run(epoch=2) == over("Error")
    assert bench.store.record(TASK).task.last_error == "undo of car: no refunds"
    assert bench.agents.steps == ["car undo"]


async def test_run_that_was_cut_short_calls_its_step_again_in_the_same_time() -> None:
    """A crash between start and outcome costs neither the complete-by nor a failure."""
    bench = Bench(LINE)
    bench.store.put(told(pending(LINE), claimed(), started("pick", complete_by=7)))
    bench.clock.advance(3)
    assert await bench.run() == over("Processed")
    assert bench.agents.steps == ["pick", "send"]
    assert bench.agents.calls[0].complete_by == after(7)
    task = bench.store.record(TASK).task
    assert (task.epoch, task.failure_count) == (1, 0)
    # Other run leaves it alone.
    bench = Bench(LINE)
    bench.store.put(told(pending(LINE), claimed(), started("pick")))
    assert await bench.run(2, share=True) == going_on()
    assert bench.agents.calls == []


async def test_run_again_goes_on_after_its_recorded_outcomes() -> None:
    """Its answer was lost after all was done, or before the next step began."""
    bench = Bench(LINE)
    bench.store.put(told(pending(LINE), claimed(), *done("pick")))
    assert await bench.run() == over("Processed")
    assert bench.agents.steps == ["send"]
    writes = bench.store.writes
    assert await bench.run() == over("finished")
    assert bench.store.writes == writes


async def test_step_that_must_not_run_twice_is_not_called_again() -> None:
    """Its outcome is unknown; a neighbour is called again."""
    once = workflow(step("pay", idempotent=False), step("note"), name="once")
    bench = Bench(once)
    bench.store.put(told(pending(once), claimed(), started("pay"), started("note")))
    assert await bench.run() == going_on()
    assert bench.agents.steps == ["note"]
    assert bench.states == {"pay": "Running", "note": "Completed"}


async def test_two_runs_of_one_number_at_once_record_each_outcome_once() -> None:
    """Durable believes the first one dead, and it is not: the effect key keeps the effect single."""
    bench = Bench(LINE)
    bench.agents.slow("pick")
    both = [asyncio.create_task(bench.run()) for _ in range(2)]
    while len(bench.agents.calls) < 2:
        await asyncio.sleep(0)
    bench.agents.let_go("pick")
    await asyncio.gather(*both)
    assert bench.agents.steps == ["pick", "pick", "send"]
    assert bench.agents.calls[0] == bench.agents.calls[1]
    assert bench.state == "Processed"


async def test_step_that_must_not_run_twice_is_called_by_one_of_two_runs() -> None:
    """By the one whose start is recorded, whichever numbers they have."""
    once = workflow(step("pay", idempotent=False), name="once")
    for number in (1, 2):
        bench = Bench(once)
        bench.agents.slow("pay")
        both = [asyncio.create_task(bench.run(each)) for each in (1, number)]
        await bench.agents.until_called("pay")
        bench.agents.let_go("pay")
        await asyncio.gather(*both)
        assert bench.agents.steps == ["pay"]
        assert bench.state == "Processed"


async def test_two_runs_at_once_call_each_step_once() -> None:
    """A reply's run meets the first one's outcome: what both see as ready is started by one of them."""
    bench = Bench(workflow(step("pick"), step("send", "pick"), step("note", "pick"), name="fan"))
    second: list[asyncio.Task[object]] = []

    def meet() -> Json:
        second.append(asyncio.create_task(bench.run(2, share=True)))
        return {}

    bench.agents.behaviours["pick"] = meet
    await bench.run()
    await asyncio.gather(*second)
    assert sorted(bench.agents.steps) == ["note", "pick", "send"]
    assert bench.state == "Processed"


def _wide(count: int) -> Workflow:
    return workflow(
        *(step(f"s{number}", complete_within=20) for number in range(count)), step("last", "s0"), name="wide"
    )


async def test_independent_steps_run_side_by_side() -> None:
    """Neither side of the diamond waits for the other; the last step waits for both, and starts once."""
    bench = Bench(DIAMOND)
    bench.agents.slow("left", "right")
    running = asyncio.create_task(bench.run())
    await bench.agents.until_called("left", "right")
    bench.agents.let_go("left", "right")
    assert await running == over("Processed")
    assert bench.agents.steps == ["open", "left", "right", "close"]


async def test_slow_step_holds_up_only_what_needs_it() -> None:
    """What another makes ready begins at once."""
    bench = Bench(workflow(step("slow"), step("quick"), step("after", "quick"), name="forked"))
    bench.agents.slow("slow", "after")
    running = asyncio.create_task(bench.run())
    await bench.agents.until_called("slow", "after")
    assert bench.step("quick").state == "Completed"
    bench.agents.let_go("slow", "after")
    assert await running == over("Processed")
    # One that fails does not end its neighbours.
    bench = Bench(workflow(step("bad"), step("good"), step("after", "good"), name="forked"))
    bench.agents.behaviours["bad"] = raising(RuntimeError("a defect"))
    assert await bench.run() == going_on()
    assert bench.states == {"bad": "Running", "good": "Completed", "after": "Completed"}
    # Step that is not needed takes no room.
    skip = step("skip", "quick", when=lambda *_: False)
    bench = Bench(workflow(step("slow"), step("quick"), step("next", "quick"), skip), limits(at_once=2))
    bench.agents.slow("slow", "next")
    running = asyncio.create_task(bench.run())
    await bench.agents.until_called("slow", "next")
    assert bench.states["skip"] == "Skipped"
    bench.agents.let_go("slow", "next")
    await running


async def test_too_much_for_one_run_is_left_to_several() -> None:
    """The first starts nothing; the others, which may run in other processes, start their shares."""
    bench = Bench(_wide(7), limits(at_once=3))
    assert await bench.run() == going_on(runs=3)
    assert bench.agents.calls == []
    names = [f"s{number}" for number in range(7)]
    bench.agents.slow(*names)
    running = [asyncio.create_task(bench.run(number, share=True)) for number in (2, 3, 4)]
    await bench.agents.until_called(*names)
    assert [bench.step(name).activity for name in names] == [2, 2, 2, 3, 3, 3, 4]
    bench.agents.let_go(*names)
    assert [each["runs"] for each in await asyncio.gather(*running)] == [0, 0, 0]
    assert bench.state == "Processed"


async def test_run_starts_more_as_room_comes() -> None:
    """It has never more under way than it may."""
    bench = Bench(_wide(7), limits(at_once=3))
    under_way: list[int] = []
    for number in range(7):
        bench.agents.behaviours[f"s{number}"] = lambda: _count(bench, under_way)
    assert await bench.run(2, share=True) == over("Processed")
    assert max(under_way) == 3


def _count(bench: Bench, under_way: list[int]) -> dict[str, bool]:
    under_way.append(list(bench.states.values()).count("Running"))
    return {}


async def test_step_that_might_outlast_the_activity_is_left_to_a_fresh_one() -> None:
    """Which begins with it, whatever time it needs."""
    bench = Bench(workflow(step("pick"), step("send", "pick", complete_within=290), name="long"))
    assert await bench.run() == going_on(runs=1)
    assert bench.agents.steps == ["pick"]
    assert await bench.run(2, share=True) == over("Processed")
    assert bench.agents.steps == ["pick", "send"]
    # A run without a ready step requests no other run.
    bench = Bench(workflow(step("pick"), step("send", "pick"), name="line"))
    bench.agents.slow("pick")
    first = asyncio.create_task(bench.run())
    await bench.agents.until_called("pick")
    assert await bench.run(2, share=True) == going_on()
    bench.agents.let_go("pick")
    assert await first == over("Processed")
    # Steps without room are left to others when all have expired.
    bench = Bench(_wide(3), limits(at_once=2))
    for number in range(3):
        bench.agents.behaviours[f"s{number}"] = raising(TransientError("no answer"))
    progress: list[Progress] = [await bench.run(2, share=True)]
    assert progress == [going_on(runs=1)]
    assert await bench.run(3, share=True) == going_on()
    assert bench.agents.steps == ["s0", "s1", "s2"]


async def test_runs_that_can_begin_nothing_make_no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should what is ready never start, whatever the defect, the Supervisor finds it."""
    bench = Bench(workflow(step("send", complete_within=290), name="long"))
    change = bench.store.change

    async def without_starts(*given: Any, **options: Any) -> Any:
        return await change(*given, **{**options, "follow": None})

    monkeypatch.setattr(bench.store, "change", without_starts)
    assert await bench.run(2, share=True) == going_on()


PICK = StepName("pick")

HEAVY = workflow(
    step("pick"),
    step("crane", "pick", when=lambda parcel, _: parcel.weight > 5),
    step("send", "crane", when=lambda _, results: results[PICK].get("bin") == "A7"),
    name="heavy",
)


@pytest.mark.parametrize(("bin_", "called"), [("A7", ["pick", "send"]), ("B1", ["pick"])])
async def test_step_that_the_order_does_not_need_is_skipped(bin_: str, called: list[str]) -> None:
    """By payload and results; the skip and the start that follows from it are one change."""
    bench = Bench(HEAVY)
    writes = bench.store.writes
    bench.agents.behaviours["pick"] = lambda: {"bin": bin_}
    assert await bench.run() == over("Processed")
    assert bench.agents.steps == called
    assert bench.step("crane").state is StepState.SKIPPED
    assert bench.store.writes == writes + 1 + len(called)


async def test_step_that_was_begun_is_not_judged_again() -> None:
    """Whatever its condition says today: its effect may stand, so its outcome is found out."""
    bench = Bench(HEAVY)
    bench.store.put(recovered(told(pending(HEAVY), claimed(), *done("pick"), started("crane"))))
    await bench.run(epoch=2)
    assert bench.agents.steps == ["crane"]


def _broken(*_: object) -> Any:
    raise KeyError("bin")


@pytest.mark.parametrize("remedy", [Remedy.COMPENSATE, Remedy.HOLD])
async def test_defect_in_a_condition_holds_the_task_at_once(
    remedy: Remedy, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its remedy, and before anything that follows is begun; its cause stands on the step."""
    steps = (step("pick"), step("send", "pick", when=_broken), step("note", "pick"))
    bench = Bench(workflow(*steps, name="broken", remedy=remedy))
    assert await bench.run() == over("Error")
    assert bench.agents.steps == ["pick"]
    assert bench.states == {"pick": "Completed", "send": "Failed", "note": "NotStarted"}
    assert bench.step("send").error == "KeyError: 'bin'"
    assert bench.store.record(TASK).task.last_error == "send: KeyError: 'bin'"
    assert caplog.text.count("step send is not started") == 1


@pytest.mark.parametrize("via", [Way.ACTIVITY, Way.QUEUE])
async def test_defect_in_a_request_holds_the_task_at_once(via: Way) -> None:
    """Nothing was sent. After the right deployment an operator resubmits it."""
    broken = replace(step("send", "pick", idempotent=False, via=via), request=_broken)
    bench = Bench(workflow(step("pick"), broken, name="broken", remedy=Remedy.COMPENSATE))
    assert await bench.run() == over("Error")
    assert (bench.step("send").state, bench.step("send").error) == (StepState.FAILED, "KeyError: 'bin'")
    again = apply(bench.store.record(TASK), resubmission(), bench.clock.now())
    assert isinstance(again, TaskRecord)
    assert again.step(StepName("send")).state is StepState.NOT_STARTED


async def test_defect_in_an_undo_is_held_as_a_refused_undo_is() -> None:
    """What is left undone stays to be undone."""
    broken = replace(step("pick", undo=True), request=_broken)
    of = workflow(broken, name="broken", remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    bench.store.put(told(pending(of), claimed(), *refused("pick")))
    assert await bench.run(epoch=2) == over("Error")
    assert bench.store.record(TASK).task.last_error == "undo of pick: KeyError: 'bin'"


SHOP = workflow(step("pay"), step("mail", "pay", on_failure=Remedy.CONTINUE), step("file", "mail"))


@pytest.mark.parametrize("fault", [TransientError("mail answered 503"), PermanentError("no such address")])
async def test_run_goes_on_without_the_step(fault: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Refused, or of unknown outcome: neither is recovered. No line says what the service said."""
    bench = Bench(SHOP)
    bench.agents.behaviours["mail"] = raising(fault)
    assert await bench.run() == over("Processed")
    assert bench.agents.steps == ["pay", "mail", "file"]
    assert bench.states == {"pay": "Completed", "mail": "Failed", "file": "Completed"}
    assert str(fault) in (bench.step("mail").error or "")
    assert not [line for line in caplog.messages if str(fault) in line]


async def test_other_steps_are_left_to_the_supervisor() -> None:
    """An unknown outcome is not recorded: the step keeps its complete-by, and the Supervisor finds it."""
    bench = Bench(SHOP)
    bench.agents.behaviours["pay"] = raising(TransientError("503"))
    assert await bench.run() == going_on()
    assert bench.states == {"pay": "Running", "mail": "NotStarted", "file": "NotStarted"}
    assert bench.state is ProcessState.PROCESSING
    # Store that does not answer leaves it to the supervisor.
    bench = Bench(SHOP)

    def fail() -> dict[str, bool]:
        bench.store.failure = TransientError("no store")
        raise TransientError("503")

    bench.agents.behaviours["mail"] = fail
    await bench.run()
    bench.store.failure = None
    assert bench.states["mail"] == "Running"


async def test_step_of_an_epoch_before_is_not_waited_for_longer_than_its_own_time() -> None:
    """By this host's clock it is not over yet, and must not be repeated; beside it, an event is awaited."""
    mail = step("mail", idempotent=False, on_failure=Remedy.CONTINUE)
    of = workflow(awaiting("approve"), mail, step("pay"), step("file", "mail"))
    begun = (started("approve", complete_by=3 * 86_400), started("mail"), started("pay"), failed("pay"))
    record = told(pending(of), claimed(), *begun)
    over_there = DecisionDue(epoch=FIRST, start_by=after(60)), resubmission()
    bench = Bench(of)
    bench.store.put(told(record, *over_there, now=after(21)))
    bench.clock.advance(19)
    progress = await bench.run(epoch=2)
    assert progress.get("again_at") == after(20).isoformat()
    bench.clock.advance(1)
    await bench.run(2, epoch=2)
    assert (bench.states["mail"], bench.states["file"]) == ("Failed", "Completed")
    assert bench.store.record(TASK).task.is_handed_back
