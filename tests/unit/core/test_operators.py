"""Operators, callers and parents act on the state that they saw. Undo covers every dispatched operation."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import NoReturn

from functions.core.derive import (
    ProcessState,
    StepState,
    WaitingFor,
    derive,
    ready_steps,
    step_state,
    undo_order,
)
from functions.core.record import (
    Direction,
    FailurePolicy,
    NotDeployedError,
    OperationState,
    StepType,
    TaskRecord,
)
from functions.core.rules import fold
from functions.core.task_events import (
    Canceller,
    ChildEnded,
    Due,
    OutcomeKind,
    Rejection,
    ResultRejected,
    Resumed,
    StepDeferred,
    Suspended,
    Verdict,
)
from tests.unit.core.builders import (
    DUE,
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
    assert rejection(record, DUE, 5_000) is Rejection.NOT_DUE
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
    assert rejection(record, DUE, 1_000) is Rejection.NOT_DUE
    resumed = after(record, Resumed(), seconds=1_010)
    assert (resumed.expires_at, resumed.do("ok").complete_by) == (at(1_600), at(1_100))
    assert (resumed.do("nap").complete_by, resumed.do("pay").find_by) == (at(100), at(1_031))
    assert resumed.do("d").defer_by == at(1_001) + SETTINGS.defer_for


def test_wait_that_was_nearly_over_when_its_version_was_missing_begins_again() -> None:
    """So does the time limit of the task. A missing version is noticed at the end of the wait."""
    record = new(spec("c", type=StepType.WORKFLOW, workflow="c", complete_within=300), complete_within=300)
    record = begin(record, "c", by=300)
    missing = after(record, NOT_DEPLOYED, seconds=250)
    for suspended, event in ((missing, Resumed()), (after(missing, SUSPEND, seconds=400), RESUME)):
        resumed = after(suspended, event, seconds=2_000)
        assert (resumed.do("c").complete_by, resumed.expires_at) == (at(2_300), at(2_300))


def test_operators_suspension_has_priority() -> None:
    """Neither a deployment nor a parent resumes a task that an operator suspended."""
    record = after(new(spec("a")), NOT_DEPLOYED)
    assert after(record, NOT_DEPLOYED, seconds=2) is record
    taken = after(record, SUSPEND, seconds=3)
    assert (taken.suspension is not None and taken.suspension.since) == at(1)
    assert rejection(taken, Resumed()) is Rejection.NOT_OPEN
    assert after(taken, NOT_DEPLOYED, seconds=4) is taken
    assert rejection(record, Suspended(reason="", epoch=7)) is Rejection.STALE_EPOCH
    ended = run(new(spec("a")), "a")
    assert rejection(ended, SUSPEND) is Rejection.FINISHED
    kept = after(new(spec("a")), SUSPEND, cancel(Canceller.PARENT))
    assert (kept.suspension is not None, after(kept, cancel()).suspension) == (True, None)


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
    record = after(after(record, start(record, "pay"), start(record, "tip")), DUE, seconds=40)
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
    parent = cancel(Canceller.PARENT)
    child = after(run(new(spec("a", undo=True), parent="p", parent_step="w"), "a"), parent)
    waiting = after(child, replace(NOT_DEPLOYED, epoch=2), seconds=3)
    assert after(waiting, parent, seconds=4) is waiting
    refused = run(child, "a", OutcomeKind.REFUSED, 3)
    assert (derive(refused).state, after(refused, parent, seconds=4)) == (ProcessState.ERROR, refused)


def test_parent_cancels_a_child_that_has_ended() -> None:
    """A child that was undone reports its end again, in a message that is no duplicate of the first one."""
    done = run(new(spec("a"), parent="p", parent_step="w"), "a")
    assert (done.outbox[-1].to, done.outbox[-1].body["step"]) == ("p", "w")
    parent = cancel(Canceller.PARENT)
    child = after(new(spec("a"), parent="p", parent_step="w"), cancel())
    assert derive(child).state is ProcessState.COMPENSATED
    again = after(child, parent, seconds=2)
    assert len({m.id for m in again.outbox if m.kind == "child ended"}) == 2


# Undo


def _undoing(*undo: str) -> TaskRecord:
    """Return a task of a, b and c, whose last step was refused."""
    record = new(*(spec(name, undo=name in undo) for name in "abc"))
    for step in "abc":
        record = after(record, start(record, step))
    record = after(record, end(record, "a"), end(record, "b"))
    return after(record, end(record, "c", OutcomeKind.REFUSED))


def test_steps_are_undone_in_reverse_order_of_dispatch() -> None:
    """A refused do was dispatched as well; a step that never started, and an undo, need no result."""
    record = _undoing("a", "b", "c")
    assert (record.direction, ready_steps(record)) == (Direction.UNDO, ["c"])
    record = begin(record, "c")
    assert (step_state(record, record.order.by_name["c"]), ready_steps(record)) == (StepState.UNDOING, [])
    record = after(record, end(record, "c", OutcomeKind.DONE_WITHOUT_RESULT))
    assert step_state(record, record.order.by_name["c"]) is StepState.UNDONE
    record = run(run(record, "b"), "a")
    assert (derive(record).state, record.reason) == (ProcessState.COMPENSATED, "c: it failed")


def test_step_that_starts_again_is_undone_after_the_steps_that_need_it() -> None:
    """The result of a is rejected when c reads it, so a starts again; x is independent of both."""
    names = {"a": (), "x": (), "b": ("a",), "c": ("a", "b")}
    record = new(*(spec(name, *needs, undo=True) for name, needs in names.items()))
    for step in "axb":
        record = run(record, step)
    record = after(record, ResultRejected(epoch=1, step="a", error="a new field"))
    record = run(after(record, resubmit(record)), "a")
    assert undo_order(run(record, "c", OutcomeKind.REFUSED)) == ["c", "b", "a", "x"]


def test_refused_undo_stops_only_the_steps_that_its_step_needs() -> None:
    """The others are undone, and an operator continues. All reasons fit into one alert."""
    record = run(_undoing("a", "b"), "b", OutcomeKind.REFUSED)
    assert ready_steps(record) == ["a"]
    record = run(record, "a")
    assert (derive(record).state, record.error) == (ProcessState.ERROR, "undo of b: it failed")
    for event in (answer(record, "b", Verdict.NOT_DONE), undo_request(record)):
        assert rejection(record, event) is Rejection.NOT_OPEN
    undone = after(record, answer(record, "b", Verdict.UNDONE))
    seen = (derive(undone).state, undone.step("b").note)
    assert seen == (ProcessState.COMPENSATED, "undone by hand: op: because")
    assert ready_steps(after(record, resubmit(record))) == ["b"]
    record = _undoing("b", "c")
    for step in "cb":
        record = run(record, step, OutcomeKind.REFUSED, error="漢" * 300)
    assert 1020 < len((record.error or "").encode()) <= 1024


def test_refused_undo_blocks_all_that_its_step_needs() -> None:
    """Directly or not, until an operator leaves the step as it is."""
    specs = [spec("a", undo=True), spec("b", "a"), spec("c", "b", undo=True), spec("d", "c")]
    record = run(run(run(new(*specs), "a"), "b"), "c")
    record = run(run(record, "d", OutcomeKind.REFUSED), "c", OutcomeKind.REFUSED)
    assert (derive(record).state, ready_steps(record)) == (ProcessState.ERROR, [])
    assert step_state(record, record.order.by_name["c"]) is StepState.UNDO_REFUSED
    left = after(record, answer(record, "c", Verdict.LEFT))
    assert (ready_steps(left), step_state(left, left.order.by_name["c"])) == (["a"], StepState.LEFT)
    ended = run(left, "a")
    assert [m.body["left"] for m in ended.outbox if m.kind == "compensated"] == [["c"]]


def test_verdict_on_an_undo_counts_only_in_error() -> None:
    """While the task is being undone, an operator waits for its end."""
    record = _undoing("a", "b")
    assert rejection(record, answer(record, "b", Verdict.UNDONE)) is Rejection.NOT_IN_ERROR


def test_exhausted_undo_counts_as_refused() -> None:
    """Failures restart at 0 for the other steps."""
    record, seconds = _undoing("a", "b"), 1.0
    for _ in range(5):
        seconds += 4_000
        if record.resume_at is not None:
            record = after(record, DUE, seconds=seconds - 1_000)
        record = begin(record, "b", by=seconds - 900, seconds=seconds - 950)
        record = after(record, DUE, seconds=seconds)
    record = after(record, DUE, seconds=seconds + 2_500)
    record = begin(record, "b", by=seconds + 2_600, seconds=seconds + 2_550)
    record = after(record, DUE, seconds=seconds + 3_000)
    assert (record.step("b").undo.state, record.failures) == (OperationState.REFUSED, 0)
    assert record.step("b").undo.error == "overdue after 5 recoveries"
    assert ready_steps(record) == ["a"]


def test_rebuilt_request_has_a_new_key_and_every_generation_is_undone() -> None:
    """It is offered only if every start under the old key has a known outcome."""
    task = new(spec("a", undo=True), on_failure=FailurePolicy.KEEP)
    once = begin(task, "a")
    record = after(once, end(once, "a", OutcomeKind.REFUSED))
    rebuilt = after(record, resubmit(record, "a"))
    assert (ready_steps(rebuilt), rebuilt.step("a").generation(Direction.DO)) == (["a"], 1)
    assert rebuilt.order.effect_key("a", Direction.DO, 1) == "t.r/a/do/1"
    assert rejection(record, resubmit(record, "z")) is Rejection.NOT_OPEN
    rebuilt = after(run(rebuilt, "a"), cancel())
    for generation in (1, 0):
        assert rebuilt.step("a").generation(Direction.UNDO) == generation
        rebuilt = after(rebuilt, start(rebuilt, "a", f"u{generation}"))
        rebuilt = after(rebuilt, end(rebuilt, "a"))
    assert derive(rebuilt).state is ProcessState.COMPENSATED


def test_request_with_an_unknown_start_is_never_rebuilt() -> None:
    """An earlier request may still take effect under the old key, or has done so without a result."""
    task = new(spec("a"), on_failure=FailurePolicy.KEEP)
    lost = after(begin(task, "a"), DUE, seconds=60)
    lost = run(lost, "a", OutcomeKind.REFUSED, seconds=61)
    assert rejection(lost, resubmit(lost, "a")) is Rejection.NOT_OPEN
    retried = run(task, "a", OutcomeKind.REFUSED, has_unanswered=True)
    assert rejection(retried, resubmit(retried, "a")) is Rejection.NOT_OPEN
    done = run(task, "a", OutcomeKind.DONE_WITHOUT_RESULT)
    again = run(after(done, resubmit(done)), "a", OutcomeKind.REFUSED)
    assert rejection(again, resubmit(again, "a")) is Rejection.NOT_OPEN


def _child_ended(record: TaskRecord, generation: int, *, is_done: bool = False) -> ChildEnded:
    child = record.order.child("w", generation)
    return ChildEnded(step="w", run_id="r", child=child, is_done=is_done, result="{}" if is_done else None)


def _with_child() -> TaskRecord:
    """Return a task in `Error` whose child was undone."""
    record = new(spec("w", type=StepType.WORKFLOW), on_failure=FailurePolicy.KEEP)
    record = begin(record, "w", request='{"n":1}')
    return after(record, _child_ended(record, 0))


def test_resubmission_starts_another_child_after_one_that_was_undone() -> None:
    """It has its own id and the recorded request; the end of the earlier child does not count for it."""
    record = _with_child()
    again = after(record, resubmit(record))
    again = begin(again, "w", request='{"n":2}')
    assert (again.outbox[-1].kind, again.outbox[-1].to) == ("start child", record.order.child("w", 1))
    assert (again.do("w").request, again.step("w").generation(Direction.DO)) == ('{"n":1}', 1)
    assert len({record.order.child("w", number) for number in range(3)}) == 3
    assert after(again, _child_ended(again, 0)) is again
    assert rejection(again, _child_ended(again, 2)) is Rejection.NOT_OPEN
    done = after(again, _child_ended(again, 1, is_done=True))
    assert derive(done).state is ProcessState.PROCESSED
    assert after(done, _child_ended(done, 0)) is done


def test_end_of_an_undone_child_counts_after_that_of_its_step() -> None:
    """The step was overdue, or its result was missing. A resubmission starts another child."""
    record = begin(new(spec("w", type=StepType.WORKFLOW), on_failure=FailurePolicy.KEEP), "w")
    no_output = replace(_child_ended(record, 0, is_done=True), result=None)
    for failed in (after(record, DUE, seconds=40), after(record, no_output)):
        gone = after(failed, undone := _child_ended(record, 0), seconds=50)
        assert after(gone, undone, seconds=51) is gone
        again = after(gone, resubmit(gone), seconds=60)
        assert begin(again, "w", seconds=61).outbox[-1].to == record.order.child("w", 1)


def test_late_payment_of_a_task_that_is_undone_is_kept() -> None:
    """Its undo follows; without an undo, operators see that its effect remains."""
    for undo, ready in ((True, ["pay"]), (False, [])):
        record = new(payment(undo=undo), spec("b"))
        paying = begin(record, "pay")
        record = after(after(paying, cancel()), DUE, seconds=60)
        assert (record.epoch, record.do("pay").state) == (2, OperationState.UNKNOWN)
        record = after(record, end(paying, "pay"), seconds=70)
        assert (record.do("pay").state, ready_steps(record)) == (OperationState.DONE, ready)
        assert alerts(record) == ([] if undo else ["noted", "noted"])


def _is_not_deployed(_record: TaskRecord) -> NoReturn:
    raise NotDeployedError("version 1 of workflow w is not deployed")


def test_task_whose_output_needs_another_version_is_suspended() -> None:
    """It ends when its version is deployed."""
    settings = replace(SETTINGS, make_output=_is_not_deployed)
    started = begin(new(spec("a")), "a")
    record = after(started, end(started, "a"), settings=settings)
    assert (record.finished_at, record.suspension is not None) == (None, True)


def test_cancelled_task_waits_for_its_payment() -> None:
    """No epoch ends while it is pending. Neither a time limit nor a deployment stops the undo."""
    record = begin(new(payment(), spec("b")), "pay")
    waiting = after(record, cancel(Canceller.CALLER))
    assert (waiting.epoch, ready_steps(waiting), waiting.decision is not None) == (1, [], True)
    ended = after(waiting, end(record, "pay"))
    assert (ended.epoch, ready_steps(ended)) == (2, ["pay"])
    record = new(payment(), on_exhausted=FailurePolicy.COMPENSATE, complete_within=20)
    record = after(begin(record, "pay", by=30), DUE, seconds=23)
    undone = after(after(record, cancel(Canceller.CALLER), seconds=24), DUE, seconds=35)
    assert (undone.direction, undone.error) == (Direction.UNDO, None)
    waiting = after(record, cancel(), seconds=24)
    undone = after(waiting, DUE, seconds=35, settings=replace(SETTINGS, check_deployed=_is_not_deployed))
    assert (undone.direction, undone.suspension) == (Direction.UNDO, None)
    started = after(new(payment()), start(new(payment()), "pay"))
    suspended = after(started, DUE, seconds=35, settings=replace(SETTINGS, check_deployed=_is_not_deployed))
    assert (suspended.direction, suspended.suspension is not None) == (Direction.DO, True)
    recovered = new(payment(), spec("b"))  # a recovery that waits for the payment is no end
    recovered = after(recovered, start(recovered, "pay", by=99), start(recovered, "b"))
    recovered = after(recovered, DUE, seconds=35)
    suspended = after(
        recovered, DUE, seconds=105, settings=replace(SETTINGS, check_deployed=_is_not_deployed)
    )
    assert (recovered.decision is not None, suspended.suspension is not None) == (True, True)
