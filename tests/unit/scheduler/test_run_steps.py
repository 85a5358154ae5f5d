"""`run_steps` does for every Agent what the pattern asks: claim, record, call, record, and on to the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.identity import SchedulerId, StartId
from functions.pattern.ports import AgentCall
from functions.pattern.states import ProcessState, StepState
from functions.pattern.step_records import StepRecord
from tests.fakes.agents import raising
from tests.fakes.interventions import done, recovered
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import DIAMOND, LINE, TASK, trip
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


async def test_unknown_outcome_is_not_recorded(bench: Bench) -> None:
    """The step stays `Running` with its complete-by: the Supervisor finds it."""
    bench.agents.behaviours["pick"] = raising(TransientError("no answer"))
    assert await bench.run() == going_on()
    assert bench.states == {"pick": "Running", "send": "NotStarted"}


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


async def test_task_that_is_held_by_another_is_left_alone(bench: Bench) -> None:
    """Which can't be, since a Scheduler is named by its epoch; but two names are compared."""
    held = told(pending(LINE), claimed())
    bench.store.put(replace(held, task=replace(held.task, locked_by=SchedulerId("another"))))
    assert await bench.run() == over("not the holder")


async def test_recovered_task_goes_on_after_its_completed_steps() -> None:
    """The step that was running is called again, under the same key."""
    bench = Bench(DIAMOND)
    lost = told(pending(), claimed(), started("open"), completed("open"), started("left"))
    bench.store.put(recovered(lost))
    assert await bench.run(epoch=2) == over("Processed")
    assert sorted(bench.agents.steps[:2]) == ["left", "right"]
    assert bench.agents.steps[2:] == ["close"]


async def test_unknown_task_is_over(bench: Bench) -> None:
    """A start for a task that housekeeping has removed."""
    assert await bench.runs.run({"task": "other", "epoch": 1, "number": 1, "share": False}) == over(
        "no such task"
    )


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
    """What is left undone is the operator's to see."""
    bench = _undoing()
    bench.agents.behaviours["car"] = raising(PermanentError("no refunds"))
    assert await bench.run(epoch=2) == over("Error")
    assert bench.store.record(TASK).task.last_error == "undo of car: no refunds"
    assert bench.agents.steps == ["car undo"]


async def test_task_is_held_for_a_result_that_no_row_can_hold(bench: Bench) -> None:
    """The step is done: to call it refused would have it undone, or done again."""
    bench.agents.behaviours["pick"] = lambda: {"text": "x" * 25_000}
    assert await bench.run() == over("Error")
    assert (
        bench.store.record(TASK).task.last_error
        == "pick: it was done, but its result has 25011 bytes; at most 24576 can be sent"
    )
