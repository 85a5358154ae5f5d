"""Steps that wait: a long wait costs nothing, and its end is nobody's failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import wakes_scheduler
from functions.pattern.definition import Default
from functions.pattern.events import DecisionDue, Event, Postponed, StepTried
from functions.pattern.identity import StartId, StepName, scheduler_id
from functions.pattern.ready import ready_steps
from functions.pattern.refusals import RefusalReason
from functions.pattern.states import Direction, Expiry, ProcessState, Remedy, StepState, Way
from functions.pattern.supervision import judge
from functions.pattern.wait_events import HandedBack, WaitsEnded
from tests.fakes.interventions import (
    cancellation,
    found_done,
    recovered,
    resubmission,
    undo_request,
)
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import TASK, awaiting, step, timer, workflow
from tests.unit.pattern.waiting_tasks import (
    APPROVE,
    DAYS,
    NO,
    YES,
    after_the_end,
    event_of,
    flow_of,
    handed_back,
    napping,
    refusal_of,
    waiting,
)


def test_task_that_only_waits_is_handed_back() -> None:
    """Nobody holds it, it is due when the wait ends, and in the same epoch."""
    task = handed_back(waiting()).task
    assert (task.process_state, task.locked_by, task.is_handed_back) == (ProcessState.PENDING, None, True)
    assert (task.due_at, task.epoch, task.run) == (after(DAYS), FIRST, None)
    assert not waiting().task.is_handed_back


@pytest.mark.parametrize("busy", [started("other"), None], ids=["busy", "nothing to wait for"])
def test_task_that_does_more_than_wait_is_not_handed_back(busy: Event | None) -> None:
    """Whatever its Scheduler thinks."""
    record = told(waiting(flow_of(step("other"))), busy) if busy else told(pending(flow_of()), claimed())
    event = HandedBack(epoch=FIRST, scheduler=claimed().scheduler)
    assert refusal_of(record, event) is RefusalReason.BUSY
    assert (
        refusal_of(record, replace(event, scheduler=scheduler_id(TASK, SECOND))) is RefusalReason.NOT_HOLDER
    )


def test_nobody_claims_a_task_that_waits() -> None:
    """Its former Scheduler may be run again by Durable Functions."""
    assert refusal_of(handed_back(waiting()), claimed()) is RefusalReason.WAITING


def test_refused_without_an_event() -> None:
    """The remedy follows."""
    record = after_the_end(handed_back(waiting(flow_of(remedy=Remedy.COMPENSATE))))
    assert record.step(APPROVE).error == "no event came by 2026-11-24 10:00:00 UTC"
    assert (record.task.direction, record.task.failure_count) == (Direction.UNDO, 0)
    assert [each.name for each in record.steps if each.needs_undo] == ["pay"]


def test_held_without_an_event_and_resubmitted() -> None:
    """An operator has it wait again, as long as the first time."""
    record = after_the_end(handed_back(waiting(flow_of(remedy=Remedy.COMPENSATE, on_expiry=Expiry.HOLD))))
    assert record.task.process_state is ProcessState.ERROR
    again = told(record, resubmission(), claimed(SECOND))
    assert ready_steps(again) == ("approve",)


def test_goes_on_without_an_event_with_the_default() -> None:
    """As the model writes it."""
    record = after_the_end(handed_back(waiting(flow_of(on_expiry=Default({"approved": False})))))
    assert record.step(APPROVE).known_result == NO
    assert record.task.run == 1
    assert refusal_of(record, event_of(NO)) is RefusalReason.STEP_ENDED


def test_goes_on_without_an_event_that_may_be_missing() -> None:
    """What needs it sees None."""
    record = after_the_end(handed_back(waiting(flow_of(on_failure=Remedy.CONTINUE))))
    assert record.step(APPROVE).settled
    assert record.task.run == 1


def test_expiry_runs_through_all_epochs() -> None:
    """From the first start: neither a recovery nor a new run begins the wait again."""
    record = told(waiting(flow_of(step("other"))), started("other"))
    again = told(recovered(record), claimed(SECOND))
    assert ready_steps(again) == ("other",)
    assert again.step(APPROVE).complete_by == after(DAYS)
    assert told(again, event_of()).step(APPROVE).known_result == YES


def test_wait_of_a_task_that_nobody_has_claimed_ends_all_the_same() -> None:
    """Its next run is asked for at once; an event that comes before that is kept on the step."""
    again = recovered(told(waiting(flow_of(step("other"))), started("other")))
    assert told(again, event_of()).task == again.task
    late = replace(again, task=replace(again.task, complete_by=after(DAYS)))
    held = after_the_end(late)
    assert (held.task.process_state, held.step(APPROVE).state) == (ProcessState.ERROR, StepState.FAILED)


def test_end_of_a_wait_is_not_overdue() -> None:
    """No epoch, no count; before it, the Supervisor leaves the task alone."""
    record = handed_back(napping())
    assert record.task.due_at == after(DAYS)
    awake = after_the_end(record)
    assert (awake.task.epoch, awake.task.failure_count, awake.task.run) == (FIRST, 0, 1)
    assert awake.step(StepName("nap")).result == b"{}"


def test_last_wait_ends_the_task() -> None:
    """Without any Scheduler."""
    record = told(pending(workflow(timer("nap"))), claimed(), started("nap", complete_by=DAYS))
    assert after_the_end(handed_back(record)).task.process_state is ProcessState.PROCESSED
    waiting = told(pending(workflow(awaiting("ok"))), claimed(), started("ok", complete_by=DAYS))
    assert told(waiting, event_of(step="ok")).task.process_state is ProcessState.PROCESSED


def test_time_that_has_passed_is_done_at_once() -> None:
    """The step begins and ends in one change."""
    assert napping(seconds=0).step(StepName("nap")).state is StepState.COMPLETED


def test_scheduler_sits_out_a_short_wait() -> None:
    """It is overdue when that ends, not before, though nothing runs."""
    record = napping(seconds=50)
    assert record.task.complete_by == after(50)
    ended = WaitsEnded(epoch=FIRST, scheduler=claimed().scheduler, start_by=after(80))
    assert refusal_of(record, ended, 49) is RefusalReason.NOT_OVERDUE
    assert (
        refusal_of(record, replace(ended, scheduler=scheduler_id(TASK, SECOND))) is RefusalReason.NOT_HOLDER
    )
    awake = told(record, ended, now=after(50))
    assert (awake.task.process_state, awake.task.run) == (ProcessState.PROCESSING, None)
    assert ready_steps(awake) == ("go",)


def test_supervisor_that_looked_before_the_task_was_handed_back_does_not_recover_it() -> None:
    """It looks when the wait ends; where it was made to look before that, the task is not overdue."""
    held = waiting()
    looked = judge(held, after(1), POLICY)
    assert isinstance(looked, Postponed)
    waits = handed_back(held)
    assert told(waits, looked) is waits
    early = replace(waits, task=replace(waits.task, due_at=looked.due_at))
    now = looked.due_at + 2 * POLICY.skew
    again = judge(early, now, POLICY)
    assert isinstance(again, Postponed)
    assert told(early, again, now=now).task.due_at == after(DAYS)


def test_supervisor_gives_the_task_of_a_lost_scheduler_to_the_next_run() -> None:
    """Its wait is over, and nothing else runs."""
    assert after_the_end(napping(seconds=50), 50).task.run == 1


def test_supervisor_leaves_the_task_to_a_scheduler_that_runs_something() -> None:
    """It goes on with all that is ready."""
    flow = workflow(timer("nap"), step("go", "nap"), step("slow"))
    record = told(pending(flow), claimed(), started("nap", complete_by=15), started("slow", complete_by=20))
    late = replace(record, task=replace(record.task, complete_by=after(15)))
    awake = after_the_end(late, 15)
    assert (awake.task.process_state, awake.task.complete_by) == (ProcessState.PROCESSING, after(20))


@pytest.mark.parametrize(("needs", "ready"), [(["mail"], ("file",)), (["mail", "render"], ())])
def test_scheduler_hears_that_no_reply_came_in_time_from_what_may_fail(
    needs: list[str], ready: tuple[str, ...]
) -> None:
    """Beside a step of days; should the message be lost, what is ready is recovered before that."""
    mail = step("mail", via=Way.QUEUE, on_failure=Remedy.CONTINUE)
    flow = workflow(mail, step("render", via=Way.QUEUE), step("file", *needs))
    begun = (started("mail", token="m" * 16), started("render", complete_by=DAYS, token="r" * 16))
    before = told(pending(flow), claimed(), *begun)
    ended = after_the_end(before, 20)
    assert wakes_scheduler(before, ended) == "mail"
    assert ready_steps(ended) == ready
    soon = after(20) + POLICY.skew + POLICY.start_within
    assert ended.task.complete_by == (soon if ready else after(DAYS))


def test_step_that_may_fail_is_not_recovered() -> None:
    """When its time is over, the task goes on without it."""
    flow = workflow(step("mail", on_failure=Remedy.CONTINUE), step("file", "mail"))
    record = after_the_end(told(pending(flow), claimed(), started("mail")), 20)
    mail = record.step(StepName("mail"))
    assert (mail.state, mail.error) == (StepState.FAILED, "outcome unknown")
    assert (record.task.epoch, record.task.failure_count, record.task.run) == (FIRST, 0, 1)


def test_waits_end_no_more_when_it_is_decided_how_the_epoch_ends() -> None:
    """What was decided happens."""
    flow = flow_of(step("other", idempotent=False))
    decided = told(waiting(flow), started("other", complete_by=DAYS), cancellation())
    now = after(DAYS) + POLICY.skew
    assert isinstance(judge(decided, now, POLICY), DecisionDue)
    event = WaitsEnded(epoch=FIRST, scheduler=None, start_by=now)
    assert refusal_of(decided, event, DAYS) is RefusalReason.NOT_OVERDUE


def test_task_that_waits_can_be_cancelled() -> None:
    """What was done is undone; the wait has nothing to undo."""
    record = told(handed_back(waiting()), cancellation())
    assert (record.task.direction, record.task.run, record.task.is_handed_back) == (
        Direction.UNDO,
        None,
        False,
    )
    assert ready_steps(told(record, claimed(SECOND))) == ("pay",)
    given_up = record.step(APPROVE)
    assert (given_up.state, given_up.finished_at) == (StepState.SKIPPED, record.task.updated_at)
    only_waits = told(pending(workflow(timer("nap"))), claimed(), started("nap", complete_by=DAYS))
    assert told(only_waits, cancellation()).task.process_state is ProcessState.COMPENSATED


def test_operator_can_have_a_task_undone_whose_event_did_not_come() -> None:
    """As any that is held."""
    held = after_the_end(handed_back(waiting(flow_of(on_expiry=Expiry.HOLD))))
    assert told(held, undo_request()).task.direction is Direction.UNDO
    assert refusal_of(held, found_done("approve")) is RefusalReason.NOT_IN_QUESTION


def test_history_knows_the_runs_of_an_epoch() -> None:
    """Their instances are purged with the task."""
    record = told(handed_back(waiting()), event_of(), cancellation())
    assert [closed.run for closed in record.history] == [1]


def test_tries_of_a_later_run_are_noted() -> None:
    """Whoever counts them knows the start, and perhaps no run."""
    record = told(handed_back(waiting()), event_of())
    later = scheduler_id(TASK, FIRST, 1)
    begun = told(record, replace(claimed(), scheduler=later), replace(started("send"), scheduler=later))
    tried = StepTried(
        epoch=FIRST,
        scheduler=scheduler_id(TASK, FIRST),
        step=StepName("send"),
        start_id=started("send").start_id,
        attempts=3,
        fault="503",
    )
    assert told(begun, tried).step(StepName("send")).attempts == 3
    assert told(begun, replace(tried, start_id=StartId("another"))) is begun
