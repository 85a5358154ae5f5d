"""A request that waited too long for its Agent was not begun: its step is dispatched again, in its epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from functions.pattern.decisions import in_question
from functions.pattern.definition import Workflow
from functions.pattern.events import Event, StepNotTaken, StepOutcome, StepTried
from functions.pattern.identity import Epoch, StartId, StepName, scheduler_id, start_of
from functions.pattern.late import replied_step
from functions.pattern.occurrences import StepEnd, occurrences
from functions.pattern.planning import Runner, plan
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, Outcome, ProcessState, Remedy, StepState, Way
from functions.pattern.step_records import MOST_DISPATCHES
from functions.pattern.transitions import apply
from functions.pattern.wait_events import HandedBack
from tests.fakes.interventions import cancellation, giving_up, recovery
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import TASK, awaiting, each, step, workflow

PAY = StepName("pay")
QUEUED = workflow(step("pay", via=Way.QUEUE, undo=True), step("send", "pay"), remedy=Remedy.COMPENSATE)
ONCE = workflow(step("pay", via=Way.QUEUE, idempotent=False), step("send", "pay"), remedy=Remedy.COMPENSATE)


def _asked(dispatch: int = 1, epoch: Epoch = FIRST, *, name: str = "pay", complete_by: float = 70) -> Event:
    token = _token(dispatch, epoch)
    return started(name, epoch, token=token, start_id=start_of(token), complete_by=complete_by)


def _token(dispatch: int, epoch: Epoch = FIRST) -> str:
    return f"token-{epoch}-{dispatch}-of-a-request"


def _not_taken(dispatch: int = 1, epoch: Epoch = FIRST, *, name: str = "pay") -> StepNotTaken:
    token = _token(dispatch, epoch)
    return StepNotTaken(
        epoch=epoch,
        scheduler=scheduler_id(TASK, epoch),
        step=StepName(name),
        start_by=after(90),
        start_id=start_of(token),
        token=token,
    )


def _told_of(event: StepOutcome, dispatch: int, epoch: Epoch = FIRST) -> StepOutcome:
    token = _token(dispatch, epoch)
    return replace(event, start_id=start_of(token), token=token)


def _planned(record: TaskRecord) -> Sequence[Event]:
    runner = Runner(
        epoch=FIRST,
        scheduler=scheduler_id(TASK, FIRST),
        activity=2,
        at_once=16,
        ends_at=after(285),
        start_within=timedelta(seconds=30),
        pick_up_within=timedelta(),
        new_id=lambda: "0" * 32,
    )
    return plan(record, runner, after(2), look_at=lambda _: True, is_first=True, may_share=False).events


def _asking(of: Workflow = QUEUED) -> TaskRecord:
    return told(pending(of), claimed(), _asked())


def test_step_is_ready_again_in_its_epoch() -> None:
    """Nobody failed: no recovery is counted, and its Scheduler has to start it in time."""
    asking = _asking()
    again = told(asking, _not_taken(), now=after(61))
    assert (again.task.epoch, again.task.failure_count) == (FIRST, 0)
    assert (again.task.process_state, again.task.complete_by) == (ProcessState.PROCESSING, after(90))
    assert (ready_steps(again), again.step(PAY).state) == ((PAY,), StepState.NOT_STARTED)
    assert ready_steps(asking) == ()
    # Next dispatch has its own token and time.
    again = told(told(_asking(), _not_taken()), _asked(2, complete_by=140), now=after(61))
    step = again.step(PAY)
    assert (step.token, step.complete_by, step.asked_at) == (_token(2), after(140), after(61))
    assert step.dispatch_of(step.start_id) == 2
    assert step.dispatch_of(start_of(_token(1))) == 1
    assert not step.was_not_taken
    done = told(again, _told_of(completed("pay"), 2), now=after(70))
    assert done.step(PAY).state is StepState.COMPLETED
    # It is counted as not taken.
    again = told(asking, _not_taken(), now=after(61))
    counted = occurrences(asking, again)
    assert counted.steps == (StepEnd(asking.step(PAY).shape, Direction.DO, Outcome.NOT_TAKEN, 61.0),)
    assert [*counted.counters] == []


@pytest.mark.parametrize("dispatched_again", [False, True])
def test_reply_that_comes_twice_changes_nothing_more(*, dispatched_again: bool) -> None:
    """It is no forgery either, whatever was dispatched meanwhile."""
    again = told(_asking(), _not_taken())
    again = told(again, _asked(2)) if dispatched_again else again
    assert apply(again, _not_taken(), after(2)) is again


_FORGED = "token-of-nobody-at-all"


@pytest.mark.parametrize(
    ("before", "event", "at", "reason"),
    [
        ([_not_taken(), _asked(2)], _told_of(completed("pay"), 1), 2, RefusalReason.NOT_TAKEN),
        ([_not_taken(), _asked(2)], replace(completed("pay"), token=_FORGED), 2, RefusalReason.WRONG_TOKEN),
        ([_not_taken()], _asked(), 2, RefusalReason.NOT_TAKEN),
        ([], replace(_not_taken(), token=_FORGED, start_id=StartId("x")), 1, RefusalReason.WRONG_TOKEN),
        ([], _not_taken(), 71, RefusalReason.LATE),
    ],
    ids=["outcome of what was not taken", "forged outcome", "start again", "forged reply", "late reply"],
)
def test_outcome_of_what_was_not_taken_counts_for_nothing(
    before: list[Event], event: Event, at: float, reason: RefusalReason
) -> None:
    """Nor does a forged or a late reply have anything dispatched again."""
    assert apply(told(_asking(), *before), event, after(at)) == Refused(reason)


def test_step_is_dispatched_so_often_in_an_epoch_and_no_more() -> None:
    """Then it is overdue like any other; the next epoch begins to count anew."""
    record = _asking()
    for dispatch in range(1, MOST_DISPATCHES + 1):
        record = told(record, _not_taken(dispatch))
        if dispatch < MOST_DISPATCHES:
            assert ready_steps(record) == (PAY,)
            record = told(record, _asked(dispatch + 1))
    assert ready_steps(record) == ()
    next_epoch = told(told(record, recovery(), now=after(100)), claimed(SECOND))
    assert ready_steps(next_epoch) == (PAY,)
    assert told(next_epoch, _asked(1, SECOND)).step(PAY).not_taken == ()
    # Undo that was never taken is no failure that may be.
    mail = step("pay", via=Way.QUEUE, undo=True, on_failure=Remedy.CONTINUE)
    undoing = told(_asking(workflow(mail)), cancellation(), claimed(SECOND))
    for dispatch in range(1, MOST_DISPATCHES + 1):
        undoing = told(undoing, _asked(dispatch, SECOND), _not_taken(dispatch, SECOND))
    assert (undoing.step(PAY).state, ready_steps(undoing)) == (StepState.UNDOING, ())


def _exhausted(of: Workflow, *beside: Event) -> TaskRecord:
    record = told(pending(of), claimed(), *beside, _asked())
    for dispatch in range(1, MOST_DISPATCHES):
        record = told(record, _not_taken(dispatch), _asked(dispatch + 1), now=after(2))
    return told(record, _not_taken(MOST_DISPATCHES), now=after(2))


def test_step_that_was_never_taken_is_overdue_beside_a_long_step_too() -> None:
    """Nobody would dispatch it again before the long step is overdue: for days."""
    of = workflow(step("pay", via=Way.QUEUE), step("weigh", via=Way.QUEUE), step("note"))
    record = _exhausted(of, started("weigh", token="w" * 32, complete_by=86_400))
    assert record.task.complete_by == after(70)
    more = told(record, started("note", complete_by=86_400), now=after(2))
    assert more.task.complete_by == after(70)
    # The task is not handed back.
    of = workflow(step("pay", via=Way.QUEUE), awaiting("approve"))
    record = _exhausted(of, started("approve", complete_by=3 * 86_400))
    assert record.task.complete_by == after(70)
    assert _planned(record) == ()
    handing_back = HandedBack(epoch=FIRST, scheduler=scheduler_id(TASK, FIRST))
    assert apply(record, handing_back, after(2)) == Refused(RefusalReason.BUSY)
    # The next dispatch has its own limit beside a long step.
    of = workflow(step("pay", via=Way.QUEUE), step("weigh", via=Way.QUEUE))
    asked = told(pending(of), claimed(), started("weigh", token="w" * 32, complete_by=86_400), _asked())
    assert told(asked, _not_taken(), now=after(61)).task.complete_by == after(90)


def test_task_goes_on_without_a_step_that_was_never_taken_and_may_fail() -> None:
    """It is neither recovered nor undone for the queue of an e-mail; a later undo covers the step."""
    mail = step("pay", via=Way.QUEUE, undo=True, on_failure=Remedy.CONTINUE)
    record = _exhausted(workflow(mail, step("note", "pay"), remedy=Remedy.COMPENSATE))
    assert (record.step(PAY).state, record.task.failure_count) == (StepState.FAILED, 0)
    assert ready_steps(record) == ("note",)
    assert apply(record, _not_taken(MOST_DISPATCHES), after(3)) is record
    assert told(record, cancellation()).step(PAY).needs_undo


@pytest.mark.parametrize("now", [60, 75])
def test_what_must_not_be_repeated_is_known_not_to_be_done(now: float) -> None:
    """It can be dispatched again; what is known is kept, also when it is known late."""
    known = told(_asking(ONCE), _not_taken(), now=after(now))
    assert in_question(_asking(ONCE)) is not None
    assert in_question(known) is None
    assert ready_steps(known) == (PAY,)
    # Task in error has no question any more.
    stopped = told(_asking(ONCE), giving_up(hold=True), now=after(71))
    known = told(stopped, _not_taken(), now=after(80))
    assert (known.task.process_state, in_question(known)) == (ProcessState.ERROR, None)


def test_agent_that_did_it_all_the_same_is_found_out() -> None:
    """It had promised that it never would: operators hear of it."""
    again = told(_asking(ONCE), _not_taken(), _asked(2))
    known = told(again, _told_of(completed("pay"), 1), now=after(5))
    assert known.step(PAY).noted == "begun in epoch 1, too, which is known by now to have been done"
    assert known.step(PAY).state is StepState.RUNNING
    # Agent cannot take back what it refused.
    refused = told(_asking(ONCE), _told_of(failed("pay"), 1))
    assert isinstance(apply(refused, _not_taken(), after(5)), Refused)
    # A later reply "not begun" resolves the doubt.
    of = workflow(
        step("pay", via=Way.QUEUE, idempotent=False, on_failure=Remedy.CONTINUE), step("send"), step("note")
    )
    given_up = told(pending(of), claimed(), _asked(), started("send", complete_by=900))
    given_up = given_up.with_step(
        replace(given_up.step(PAY), state=StepState.FAILED, error="outcome unknown (no answer)")
    )
    assert given_up.step(PAY).in_doubt
    known = told(given_up, _not_taken(), now=after(80))
    assert (known.step(PAY).state, known.step(PAY).in_doubt) == (StepState.FAILED, False)


def test_decision_that_waited_for_it_is_carried_out() -> None:
    """A cancelled task need not wait until complete-by for what was not begun."""
    waiting = told(_asking(ONCE), cancellation())
    assert waiting.task.epoch == FIRST
    assert told(waiting, _not_taken(), now=after(5)).task.epoch == SECOND


def test_undo_is_dispatched_again_too() -> None:
    """As often as a do; the step stays one that is to be undone."""
    done = (_told_of(completed("pay"), 1), started("send"), failed("send"), claimed(SECOND))
    undoing = told(_asking(), *done, _asked(1, SECOND))
    again = told(undoing, _not_taken(1, SECOND), now=after(61))
    assert (again.task.direction, again.step(PAY).state) == (Direction.UNDO, StepState.UNDOING)
    assert (ready_steps(undoing), ready_steps(again)) == ((), (PAY,))
    second = told(again, _asked(2, SECOND, complete_by=140), now=after(61))
    assert (ready_steps(second), second.task.complete_by) == ((), after(140))
    undone = told(second, _told_of(completed("pay", SECOND), 2, SECOND), now=after(62))
    assert undone.task.process_state is ProcessState.COMPENSATED


def test_reply_is_of_the_item_whose_request_it_was() -> None:
    """Also when that item was dispatched again."""
    of = workflow(each("pay", via=Way.QUEUE))
    asked = told(pending(of, weight=2), claimed(), _asked(name="pay.0"), _asked(7, name="pay.1"))
    again = told(asked, _not_taken(7, name="pay.1"), _asked(8, name="pay.1"))
    assert replied_step(again, PAY, _token(7)) == "pay.1"
    assert replied_step(again, PAY, _token(8)) == "pay.1"


def test_what_its_agent_gave_up_is_overdue_when_its_own_time_ends() -> None:
    """What was left for the wait on the queue is not waited for."""
    tried = StepTried(
        epoch=FIRST,
        scheduler=scheduler_id(TASK, FIRST),
        step=PAY,
        start_id=start_of(_token(1)),
        attempts=1,
        fault="no answer",
        ended_by=after(15),
    )
    given_up = told(_asking(), tried, now=after(6))
    assert (given_up.step(PAY).complete_by, given_up.task.complete_by) == (after(15), after(15))
    assert given_up.task.due_at == after(15)
    assert apply(given_up, replace(tried, ended_by=after(40)), after(7)) is given_up
