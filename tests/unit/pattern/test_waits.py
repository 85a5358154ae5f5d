"""Steps that wait for an event or a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import starts_scheduler, wakes_scheduler
from functions.pattern.definition import Default, Registry, Workflow
from functions.pattern.events import DecisionDue, Event, Parked, Postponed, Released, StepTried
from functions.pattern.identity import SchedulerId, StartId, StepName, scheduler_id
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason
from functions.pattern.states import Direction, Expiry, ProcessState, Remedy, StepState, Way
from functions.pattern.supervision import judge
from functions.pattern.texts import MAX_ERROR_BYTES
from functions.pattern.untold import untold
from functions.pattern.wait_events import HandedBack, TurnedAway, WaitsEnded
from tests.fakes.interventions import (
    cancellation,
    done,
    found_done,
    park_request,
    recovered,
    refused,
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
    # Nobody claims a task that waits.
    assert refusal_of(handed_back(waiting()), claimed()) is RefusalReason.WAITING


@pytest.mark.parametrize("busy", [started("other"), None], ids=["busy", "nothing to wait for"])
def test_task_that_does_more_than_wait_is_not_handed_back(busy: Event | None) -> None:
    """Whatever its Scheduler thinks."""
    record = told(waiting(flow_of(step("other"))), busy) if busy else told(pending(flow_of()), claimed())
    event = HandedBack(epoch=FIRST, scheduler=claimed().scheduler)
    assert refusal_of(record, event) is RefusalReason.BUSY
    assert (
        refusal_of(record, replace(event, scheduler=scheduler_id(TASK, SECOND))) is RefusalReason.NOT_HOLDER
    )


def test_refused_without_an_event() -> None:
    """The remedy follows."""
    record = after_the_end(handed_back(waiting(flow_of(remedy=Remedy.COMPENSATE))))
    assert record.step(APPROVE).error == "no event came by 2026-11-24 10:00:00 UTC"
    assert (record.task.direction, record.task.failure_count) == (Direction.UNDO, 0)
    assert [each.name for each in record.steps if each.needs_undo] == ["pay"]
    # Goes on without an event that may be missing.
    record = after_the_end(handed_back(waiting(flow_of(on_failure=Remedy.CONTINUE))))
    assert record.step(APPROVE).settled
    assert record.task.run == 1


def test_held_without_an_event_and_resubmitted() -> None:
    """An operator has it wait again, as long as the first time."""
    record = after_the_end(handed_back(waiting(flow_of(remedy=Remedy.COMPENSATE, on_expiry=Expiry.HOLD))))
    assert record.task.process_state is ProcessState.ERROR
    again = told(record, resubmission(), claimed(SECOND))
    assert ready_steps(again) == ("approve",)
    # Operator can have a task undone whose event did not come.
    held = after_the_end(handed_back(waiting(flow_of(on_expiry=Expiry.HOLD))))
    assert told(held, undo_request()).task.direction is Direction.UNDO
    assert refusal_of(held, found_done("approve")) is RefusalReason.NOT_IN_QUESTION


def test_goes_on_without_an_event_with_the_default() -> None:
    """As the model writes it."""
    record = after_the_end(handed_back(waiting(flow_of(on_expiry=Default({"approved": False})))))
    assert record.step(APPROVE).known_result == NO
    assert record.task.run == 1
    assert refusal_of(record, event_of(NO)) is RefusalReason.STEP_ENDED


def test_expiry_runs_through_all_epochs() -> None:
    """From the first start: neither a recovery nor a new run begins the wait again."""
    record = told(waiting(flow_of(step("other"))), started("other"))
    again = told(recovered(record), claimed(SECOND))
    assert ready_steps(again) == ("other",)
    assert again.step(APPROVE).complete_by == after(DAYS)
    assert told(again, event_of()).step(APPROVE).known_result == YES
    # A wait ends in a task that is not claimed.
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
    # Time that has passed is done at once.
    assert napping(seconds=0).step(StepName("nap")).state is StepState.COMPLETED
    # Supervisor gives the task of a lost scheduler to the next run.
    assert after_the_end(napping(seconds=50), 50).task.run == 1
    # Step that may fail is not recovered.
    flow = workflow(step("mail", on_failure=Remedy.CONTINUE), step("file", "mail"))
    record = after_the_end(told(pending(flow), claimed(), started("mail")), 20)
    mail = record.step(StepName("mail"))
    assert (mail.state, mail.error) == (StepState.FAILED, "outcome unknown")
    assert (record.task.epoch, record.task.failure_count, record.task.run) == (FIRST, 0, 1)


def test_last_wait_ends_the_task() -> None:
    """Without any Scheduler."""
    record = told(pending(workflow(timer("nap"))), claimed(), started("nap", complete_by=DAYS))
    assert after_the_end(handed_back(record)).task.process_state is ProcessState.PROCESSED
    waiting = told(pending(workflow(awaiting("ok"))), claimed(), started("ok", complete_by=DAYS))
    assert told(waiting, event_of(step="ok")).task.process_state is ProcessState.PROCESSED


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
    # Supervisor leaves the task to a scheduler that runs something.
    flow = workflow(timer("nap"), step("go", "nap"), step("slow"))
    record = told(pending(flow), claimed(), started("nap", complete_by=15), started("slow", complete_by=20))
    late = replace(record, task=replace(record.task, complete_by=after(15)))
    awake = after_the_end(late, 15)
    assert (awake.task.process_state, awake.task.complete_by) == (ProcessState.PROCESSING, after(20))


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


def test_event_ends_the_wait_and_asks_for_the_next_run() -> None:
    """In the same epoch, uncounted; the body is the step's result."""
    before = handed_back(waiting())
    record = told(before, event_of())
    approve = record.step(APPROVE)
    assert (approve.state, approve.known_result, approve.received) == (StepState.COMPLETED, YES, YES)
    assert approve.told_by == "anna"
    assert (record.task.run, record.task.epoch, record.task.failure_count) == (1, FIRST, 0)
    assert starts_scheduler(before, record)
    assert not starts_scheduler(waiting(), before)
    assert record.task.due_at == after(30)
    # Only the next run may claim it.
    record = told(handed_back(waiting()), event_of())
    assert refusal_of(record, claimed()) is RefusalReason.NOT_HOLDER
    claim = replace(claimed(), scheduler=scheduler_id(TASK, FIRST, 1))
    assert ready_steps(told(record, claim)) == ("send",)
    # History knows the runs of an epoch.
    record = told(handed_back(waiting()), event_of(), cancellation())
    assert [closed.run for closed in record.history] == [1]
    # Reason of an operator is bounded.
    record = told(waiting(), replace(event_of(), reason="\U0001f600" * 500))
    why = record.step(APPROVE).told_why
    assert why is not None
    assert 1_000 < len(why.encode()) <= MAX_ERROR_BYTES


def test_scheduler_that_holds_the_task_hears_of_the_event() -> None:
    """It runs another step meanwhile."""
    before = told(waiting(flow_of(step("other"))), started("other", complete_by=DAYS))
    record = told(before, event_of())
    assert record.task.complete_by == after(30), "its message may be lost"
    assert wakes_scheduler(before, record) == "approve"
    assert ready_steps(record) == ("send",)
    assert wakes_scheduler(record, told(record, event_of())) is None
    early = told(pending(flow_of()), event_of())
    assert wakes_scheduler(pending(flow_of()), early) is None
    held = told(early, claimed())
    assert wakes_scheduler(early, held) is None


def test_event_may_come_before_its_step_has_begun() -> None:
    """Then the step is done as soon as it begins."""
    record = told(pending(flow_of()), event_of())
    assert (record.step(APPROVE).state, record.task) == (StepState.NOT_STARTED, pending(flow_of()).task)
    begun = told(record, claimed(), *done("pay"), started("approve", complete_by=DAYS))
    assert begun.step(APPROVE).known_result == YES
    assert ready_steps(begun) == ("send",)


@pytest.mark.parametrize("received", [YES, None])
def test_result_that_is_recorded_beside_the_event_counts(received: bytes | None) -> None:
    """An operator gives the result of a step that did not take its event."""
    record = told(waiting(), event_of())
    given = replace(record.step(APPROVE), result=NO, received=received)
    assert given.known_result == NO


def test_same_event_again_changes_nothing_and_another_is_refused() -> None:
    """Whatever has become of the task."""
    record = told(handed_back(waiting()), event_of())
    for each in (record, told(record, cancellation())):
        assert told(each, event_of()) is each
        assert refusal_of(each, event_of(NO)) is RefusalReason.OTHER_EVENT
    # Record decides whether an event came in time.
    assert told(handed_back(waiting()), event_of(), now=after(2 * DAYS)).step(APPROVE).known_result == YES
    expired = after_the_end(handed_back(waiting()))
    assert refusal_of(expired, event_of()) is RefusalReason.STEP_ENDED
    # Event counts for nothing when the task has turned back.
    assert refusal_of(told(waiting(), cancellation()), event_of()) is RefusalReason.FINISHED
    flow = flow_of(step("other", idempotent=False))
    decided = told(waiting(flow), started("other"), cancellation())
    assert decided.task.decision is not None
    assert refusal_of(decided, event_of()) is RefusalReason.DECIDED


@pytest.mark.parametrize("name", ["pay", "nothing"])
def test_only_a_step_that_waits_takes_an_event(name: str) -> None:
    """Any other is unknown to callers."""
    assert refusal_of(waiting(), event_of(step=name)) is RefusalReason.NO_SUCH_STEP


def test_event_counts_while_the_task_is_in_error() -> None:
    """It changes the step only; the task goes on when an operator says so."""
    held = told(waiting(flow_of(step("other"))), *refused("other"))
    record = told(held, event_of())
    assert (record.task, record.step(APPROVE).known_result) == (held.task, YES)
    assert ready_steps(told(record, resubmission(), claimed(SECOND))) == ("send", "other")
    # Event of a parked task is kept.
    idle = handed_back(waiting())
    parked = replace(idle, task=replace(idle.task, not_before=None, parked_for="parcels|1"))
    record = told(parked, event_of())
    assert (record.task, record.step(APPROVE).known_result) == (parked.task, YES)
    released = told(record, Released(epoch=FIRST, start_by=after(60)), claimed(SECOND))
    assert ready_steps(released) == ("send",)


FLOW = workflow(step("pay"), awaiting("approve"), timer("nap", until=after(DAYS)))
AWAITED = told(
    pending(FLOW), claimed(), started("approve", complete_by=DAYS), started("nap", complete_by=DAYS)
)
AWAY = TurnedAway(step=APPROVE)
REASON = "version 1 of 'parcels' is not deployed here"


@pytest.mark.parametrize(
    ("deployed", "seconds", "reason"),
    [
        (replace(FLOW, version=2), DAYS, REASON),
        (replace(FLOW, version=2), DAYS - 1, None),
        (FLOW, DAYS, None),
    ],
    ids=["away", "not over yet", "here"],
)
def test_task_is_parked_when_the_time_of_an_event_ends_where_it_can_t_be_told(
    deployed: Workflow, seconds: float, reason: str | None
) -> None:
    """Not before; and where it could be told, it had its time."""
    found = untold(Registry((deployed,), {}), AWAITED, after(seconds))
    assert (found and found.reason) == reason
    if found is not None:
        assert told(AWAITED, found, now=after(seconds)).task.is_parked


def test_event_told_elsewhere_at_the_last_moment_parks_no_task() -> None:
    """A Supervisor that found it untold comes too late: a host with its version goes on with it."""
    record = handed_back(waiting())
    found = untold(Registry((), {}), record, after(DAYS))
    assert found is not None
    gone_on = told(record, event_of(), now=after(DAYS))
    assert refusal_of(gone_on, found, DAYS) is RefusalReason.NOT_OVERDUE


def test_time_needs_nobody_to_tell_it() -> None:
    """A timer ends wherever it is seen."""
    only = told(pending(FLOW), claimed(), started("nap", complete_by=DAYS))
    assert untold(Registry((), {}), only, after(DAYS)) is None
    # No task is parked beside a step under way.
    busy = told(AWAITED, started("pay"))
    assert untold(Registry((), {}), busy, after(DAYS)) is None


@pytest.mark.parametrize(
    ("released_at", "until"),
    [
        (DAYS - 99, DAYS),
        (DAYS - 1, DAYS + 29),
        (DAYS + 1, DAYS + 31),
        (DAYS + 99, DAYS + 198),
        (3 * DAYS, 4 * DAYS),
    ],
    ids=["not over yet", "nearly over", "at least", "as long again", "at most"],
)
def test_event_is_awaited_as_much_longer_as_nobody_could_tell_it(released_at: float, until: float) -> None:
    """From when its version is back; whoever was turned away before tries again a little later."""
    parked = told(handed_back(waiting()), Parked(epoch=FIRST, scheduler=None, reason=REASON))
    released = told(parked, Released(epoch=FIRST, start_by=after(released_at + 30)), now=after(released_at))
    assert released.step(APPROVE).complete_by == after(until)
    [of_before] = [step for step in released.history[-1].steps if step.name == APPROVE]
    assert of_before.complete_by == after(DAYS)


def test_event_is_awaited_longer_also_when_an_operator_parks_what_waits_for_its_version() -> None:
    """From then on: no deployment releases it any more. What nobody had parked has had its time."""
    record = handed_back(waiting())
    parked = told(record, Parked(epoch=FIRST, scheduler=None, reason=REASON))
    for before, until in ((parked, DAYS + 198), (record, DAYS)):
        aside = told(before, park_request(), now=after(DAYS + 99))
        assert aside.step(APPROVE).complete_by == after(until)


@pytest.mark.parametrize(
    ("within", "noted", "seconds"),
    [(DAYS, DAYS - 99, 3600), (600, DAYS - 99, 600), (9, DAYS - 1, 30), (DAYS, DAYS + 1, 3600)],
    ids=["an hour", "as long as at first", "until something can start", "noted after its end"],
)
def test_event_whose_teller_was_turned_away_is_awaited_for_longer(
    within: float, noted: float, seconds: float
) -> None:
    """By the record alone, once: who is turned away again meanwhile is noted again."""
    record = handed_back(waiting(flow_of(complete_within=within)))
    for at in (noted, noted + 9):
        record = told(record, AWAY, now=after(at))
    assert record.step(APPROVE).turned_away_at == after(noted)
    longer = after_the_end(record)
    until = DAYS + POLICY.skew.total_seconds() + seconds
    assert (longer.step(APPROVE).state, longer.step(APPROVE).complete_by) == (StepState.RUNNING, after(until))
    assert longer.task.is_handed_back
    assert longer.task.due_at == after(until)
    assert after_the_end(longer, until).step(APPROVE).state is StepState.FAILED


@pytest.mark.parametrize("on_expiry", [Expiry.REFUSE, Expiry.HOLD, Default({"approved": False})])
@pytest.mark.parametrize("holder", [None, claimed().scheduler])
@pytest.mark.parametrize("is_busy", [True, False])
def test_noted_wait_does_not_end_by_its_time(
    on_expiry: Expiry | Default, holder: SchedulerId | None, *, is_busy: bool
) -> None:
    """Whatever would come of it, whoever finds it over, and whatever else is under way."""
    record = waiting(flow_of(step("other"), on_expiry=on_expiry))
    record = told(record, *([started("other", complete_by=2 * DAYS)] if is_busy else done("other")), AWAY)
    event = WaitsEnded(epoch=FIRST, scheduler=holder, start_by=after(DAYS + 30))
    longer = told(record, event, now=after(DAYS))
    assert longer.step(APPROVE).state is StepState.RUNNING
    assert longer.task.epoch == FIRST
    assert longer.task.locked_by == (record.task.locked_by if is_busy or holder else None)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (told(waiting(), event_of()), RefusalReason.STEP_ENDED),
        (told(waiting(), cancellation()), RefusalReason.FINISHED),
        (pending(workflow(step("approve"))), RefusalReason.NO_SUCH_STEP),
        (pending(workflow(step("pay"))), RefusalReason.NO_SUCH_STEP),
    ],
)
def test_teller_is_not_noted_of_what_no_event_ends(record: TaskRecord, reason: RefusalReason) -> None:
    """What was told, or comes too late; or the id is another task's by now."""
    assert refusal_of(record, AWAY) is reason


def test_released_task_has_the_hour_too() -> None:
    """It had been turned away before the time was over, and is not awaited for longer a second time."""
    turned_away = told(handed_back(waiting()), AWAY, now=after(DAYS - 99))
    parked = told(turned_away, Parked(epoch=FIRST, scheduler=None, reason=REASON))
    released = told(parked, Released(epoch=FIRST, start_by=after(DAYS + 31)), now=after(DAYS + 1))
    approve = released.step(APPROVE)
    assert (approve.complete_by, approve.turned_away_at) == (after(DAYS + 3601), None)
    # A note from an earlier time does not lengthen the wait.
    early = told(pending(flow_of()), AWAY, claimed(), *done("pay"), started("approve", complete_by=DAYS))
    assert after_the_end(handed_back(early)).step(APPROVE).state is StepState.FAILED
