"""Operators, callers and parents act on the state that they saw."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

from functions.core.derive import ProcessState, WaitingFor, derive, ready_steps, undo_order
from functions.core.record import Direction, FailurePolicy, OperationState, StepType
from functions.core.rules import fold
from functions.core.task_events import (
    Cancelled,
    Canceller,
    Due,
    OutcomeKind,
    Rejection,
    Resumed,
    StepDeferred,
    Suspended,
    Verdict,
)
from tests.unit.core.builders import (
    LOOK,
    NOT_DEPLOYED,
    RESUME,
    SETTINGS,
    SUSPEND,
    after,
    alerts,
    answer,
    at,
    begin,
    cancel,
    end,
    find,
    new,
    payment,
    queue,
    rejection,
    resubmit,
    run,
    spec,
    start,
    undo_request,
)


def test_suspension_stops_starts_and_calls_under_way_count() -> None:
    """Columns show the calls under way."""
    record = new(spec("a"), spec("b", "a"))
    record = after(record, start(record, "a"), SUSPEND)
    columns = derive(record)
    assert (columns.waiting_for, columns.calls_under_way, columns.due_at) == (WaitingFor.SUSPENDED, 1, None)
    assert columns.wake_at is None
    record = after(record, end(record, "a"), seconds=5)
    seen = (record.do("a").state, ready_steps(record), derive(record).calls_under_way)
    assert seen == (OperationState.DONE, [], 0)
    assert rejection(record, LOOK, 5_000) is Rejection.NOT_DUE
    resumed = after(record, RESUME, seconds=5_000)
    assert (ready_steps(resumed), resumed.run, resumed.failures) == (["b"], 2, 0)
    assert rejection(resumed, RESUME) is Rejection.NOT_OPEN


def test_call_that_became_overdue_while_suspended_starts_again_uncounted() -> None:
    """A step that must not be repeated waits for its outcome."""
    record = new(spec("a"), payment(), queue("q"))
    record = after(record, *(start(record, name) for name in ("a", "pay", "q")), SUSPEND)
    resumed = after(record, RESUME, seconds=100)
    assert (ready_steps(resumed), resumed.failures) == (["a", "q"], 0)
    assert resumed.do("pay").state is OperationState.RUNNING


def test_deadlines_do_not_run_while_the_version_is_missing() -> None:
    """They move by the length of the suspension; a timer keeps its time."""
    record = new(
        spec("ok", type=StepType.EVENT),
        spec("nap", type=StepType.TIMER),
        payment(can_find=True),
        spec("d"),
        complete_within=600,
    )
    record = after(record, *(start(record, name, by=100) for name in ("ok", "nap", "pay")))
    record = after(record, StepDeferred(epoch=1, step="d"), end(record, "pay", OutcomeKind.UNKNOWN))
    record = after(record, find(record, "pay", by=31), seconds=2)
    record = after(record, NOT_DEPLOYED, seconds=10)
    assert alerts(record) == ["suspended"]
    assert rejection(record, LOOK, 1_000) is Rejection.NOT_DUE
    resumed = after(record, Resumed(), seconds=1_010)
    assert (resumed.expires_at, resumed.do("ok").complete_by) == (at(1_600), at(1_100))
    assert (resumed.do("nap").complete_by, resumed.do("pay").find_by) == (at(100), at(1_031))
    assert resumed.do("d").defer_by == at(1_001) + SETTINGS.defer_for


def test_wait_that_was_nearly_over_when_its_version_was_missing_begins_again() -> None:
    """So does the time limit of the task. Nobody notices earlier that the version is missing."""
    record = new(spec("c", type=StepType.WORKFLOW, workflow="c", complete_within=300), complete_within=300)
    record = begin(record, "c", by=300)
    missing = after(record, NOT_DEPLOYED, seconds=250)
    for suspended, event in ((missing, Resumed()), (after(missing, SUSPEND, seconds=400), RESUME)):
        resumed = after(suspended, event, seconds=2_000)
        assert (resumed.do("c").complete_by, resumed.expires_at) == (at(2_300), at(2_300))


def test_operators_suspension_has_priority() -> None:
    """A deployment does not resume a task that an operator suspended."""
    record = after(new(spec("a")), NOT_DEPLOYED)
    assert after(record, NOT_DEPLOYED, seconds=2) is record
    taken = after(record, SUSPEND, seconds=3)
    assert (taken.suspension is not None and taken.suspension.since) == at(1)
    assert rejection(taken, Resumed()) is Rejection.NOT_OPEN
    assert after(taken, NOT_DEPLOYED, seconds=4) is taken
    assert rejection(record, Suspended(reason="", epoch=7)) is Rejection.STALE_EPOCH
    ended = run(new(spec("a")), "a")
    assert rejection(ended, SUSPEND) is Rejection.FINISHED


def test_verdict_carries_the_epoch_that_the_operator_saw() -> None:
    """A repeated "not done" must not answer a later question: the payment would be made twice."""
    record = begin(new(payment()), "pay")
    record = after(record, Due(), seconds=60)
    first = answer(record, "pay", Verdict.NOT_DONE)
    again = after(record, first, seconds=61)
    assert rejection(again, first, 62) is Rejection.STALE_EPOCH
    assert rejection(again, answer(again, "pay", Verdict.NOT_DONE), 62) is Rejection.NOT_IN_ERROR
    record = begin(again, "pay", start_id="2", by=100, seconds=70)
    record = after(record, Due(), seconds=200)
    seen = (derive(record).state, rejection(record, first, 201))
    assert seen == (ProcessState.ERROR, Rejection.STALE_EPOCH)


def test_time_in_error_does_not_count_against_waits() -> None:
    """Also if a verdict leaves another question open. A timer keeps its time."""
    types = (StepType.EVENT, StepType.WORKFLOW, StepType.TIMER)
    record = new(payment(), replace(payment(), name="tip"), *(spec(each, type=each) for each in types))
    record = after(record, *(start(record, each, by=900) for each in types))
    record = after(after(record, start(record, "pay"), start(record, "tip")), LOOK, seconds=40)
    record = after(record, answer(record, "pay", Verdict.NOT_DONE), seconds=100)
    record = after(record, answer(record, "tip", Verdict.DONE, "{}"), seconds=240)
    assert [record.do(each).complete_by for each in types] == [at(1_100), at(1_100), at(900)]


def test_resubmission_starts_refused_steps_again() -> None:
    """Optional steps that failed stay as they are."""
    record = new(spec("o", on_failure=FailurePolicy.CONTINUE), spec("a"), on_failure=FailurePolicy.KEEP)
    assert rejection(record, resubmit(record)) is Rejection.NOT_IN_ERROR
    record = run(run(record, "o", OutcomeKind.REFUSED), "a", OutcomeKind.REFUSED)
    assert rejection(record, replace(resubmit(record), epoch=9)) is Rejection.STALE_EPOCH
    again = after(record, resubmit(record), seconds=9)
    assert (ready_steps(again), again.epoch, again.closed[0].end) == (["a"], 2, "resubmitted")
    assert again.closed[0].steps == {"o": "refused", "a": "refused"}


def test_each_entry_into_error_has_its_own_alert() -> None:
    """And so has each suspension: the id has the time, so that no receiver takes it for a repetition."""
    record = run(new(spec("a"), on_failure=FailurePolicy.KEEP), "a", OutcomeKind.REFUSED)
    record = run(after(record, resubmit(record)), "a", OutcomeKind.REFUSED)
    assert alerts(record) == ["error", "error"]
    assert len({message.id for message in record.outbox}) == len(record.outbox)
    record = after(after(after(new(spec("a")), NOT_DEPLOYED), Resumed(), seconds=2), NOT_DEPLOYED, seconds=3)
    assert len({message.id for message in record.outbox if message.kind == "alert"}) == 2


def test_action_is_previewed_by_its_rule() -> None:
    """The rules are pure: the record after an action shows its effects, and nothing is written."""
    record = new(
        spec("a", undo=True), spec("b", "a", undo=True), spec("c", "b"), on_failure=FailurePolicy.KEEP
    )
    record = run(run(run(record, "a"), "b"), "c", OutcomeKind.REFUSED)
    seen = deepcopy(record)
    undone, resubmitted, cancelled = (
        fold(record, action, None, at(9), SETTINGS).record
        for action in (undo_request(record), resubmit(record), cancel())
    )
    assert (undo_order(undone), undo_order(cancelled)) == (["b", "a"], ["b", "a"])
    assert ready_steps(resubmitted) == ["c"]
    assert {each.acted_at for each in (undone, resubmitted, cancelled)} == {at(9)}
    assert fold(record, SUSPEND, None, at(9), SETTINGS).rejection is Rejection.FINISHED
    assert record == seen


def test_caller_cancels_a_task_under_way_and_for_a_time_afterwards() -> None:
    """Not in `Error`, not while an operator suspends it, and not the child of another task."""
    by_caller = cancel(Canceller.CALLER)
    record = new(spec("a", undo=True), cancel_within=60)
    assert after(record, by_caller).direction is Direction.UNDO
    done = run(record, "a")
    assert after(done, by_caller, seconds=61).direction is Direction.UNDO
    assert rejection(done, by_caller, 62) is Rejection.NOT_CANCELLABLE
    assert rejection(after(record, SUSPEND), by_caller) is Rejection.NOT_CANCELLABLE
    assert rejection(new(spec("a"), parent="p"), by_caller) is Rejection.NOT_CANCELLABLE
    kept = run(new(spec("a"), on_failure=FailurePolicy.KEEP), "a", OutcomeKind.REFUSED)
    assert rejection(kept, by_caller) is Rejection.NOT_CANCELLABLE
    undoing = after(done, by_caller, seconds=2)
    assert after(undoing, by_caller, seconds=3) is undoing


def test_repeated_cancel_of_a_task_that_is_being_undone_changes_nothing() -> None:
    """It neither opens an epoch of one in `Error`, nor resumes one whose version is missing."""
    parent = Cancelled(by=Canceller.PARENT, who="p", reason="undone")
    child = after(run(new(spec("a", undo=True), parent="p", parent_step="w"), "a"), parent)
    waiting = after(child, replace(NOT_DEPLOYED, epoch=2), seconds=3)
    assert after(waiting, parent, seconds=4) is waiting
    refused = run(child, "a", OutcomeKind.REFUSED, 3)
    assert (derive(refused).state, after(refused, parent, seconds=4)) == (ProcessState.ERROR, refused)


def test_parent_cancels_a_child_that_has_ended() -> None:
    """A child that was undone reports its end again, in a message that is no duplicate of the first one."""
    done = run(new(spec("a"), parent="p", parent_step="w"), "a")
    assert (done.outbox[-1].to, done.outbox[-1].body["step"]) == ("p", "w")
    parent = Cancelled(by=Canceller.PARENT, who="p", reason="undone")
    child = after(new(spec("a"), parent="p", parent_step="w"), cancel())
    assert derive(child).state is ProcessState.COMPENSATED
    again = after(child, parent, seconds=2)
    assert len({m.id for m in again.outbox if m.kind == "child ended"}) == 2
