"""Undo covers every operation that was dispatched, in an order that refused undos change."""

from __future__ import annotations

from dataclasses import replace

from functions.core.derive import ProcessState, StepState, derive, ready_steps, step_state, undo_order
from functions.core.record import (
    Direction,
    FailurePolicy,
    NotDeployedError,
    OperationState,
    StepType,
    TaskRecord,
)
from functions.core.task_events import (
    Canceller,
    ChildEnded,
    OutcomeKind,
    Rejection,
    ResultRejected,
    Verdict,
)
from tests.unit.core.builders import (
    LOOK,
    SETTINGS,
    after,
    alerts,
    answer,
    begin,
    cancel,
    end,
    new,
    payment,
    rejection,
    resubmit,
    run,
    spec,
    start,
)


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
    assert rejection(record, answer(record, "b", Verdict.NOT_DONE)) is Rejection.NOT_OPEN
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
            record = after(record, LOOK, seconds=seconds - 1_000)
        record = begin(record, "b", by=seconds - 900, seconds=seconds - 950)
        record = after(record, LOOK, seconds=seconds)
    record = after(record, LOOK, seconds=seconds + 2_500)
    record = begin(record, "b", by=seconds + 2_600, seconds=seconds + 2_550)
    record = after(record, LOOK, seconds=seconds + 3_000)
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
    lost = after(begin(task, "a"), LOOK, seconds=60)
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
    for failed in (after(record, LOOK, seconds=40), after(record, no_output)):
        gone = after(failed, undone := _child_ended(record, 0), seconds=50)
        assert after(gone, undone, seconds=51) is gone
        again = after(gone, resubmit(gone), seconds=60)
        assert begin(again, "w", seconds=61).outbox[-1].to == record.order.child("w", 1)


def test_late_payment_of_a_task_that_is_undone_is_kept() -> None:
    """Its undo follows; without an undo, operators see that its effect remains."""
    for undo, ready in ((True, ["pay"]), (False, [])):
        record = new(payment(undo=undo), spec("b"))
        paying = begin(record, "pay")
        record = after(after(paying, cancel()), LOOK, seconds=60)
        assert (record.epoch, record.do("pay").state) == (2, OperationState.UNKNOWN)
        record = after(record, end(paying, "pay"), seconds=70)
        assert (record.do("pay").state, ready_steps(record)) == (OperationState.DONE, ready)
        assert alerts(record) == ([] if undo else ["noted", "noted"])


def _is_not_deployed(_record: TaskRecord) -> None:
    raise NotDeployedError("version 1 of workflow w is not deployed")


def test_cancelled_task_waits_for_its_payment() -> None:
    """No epoch ends while it is pending. Neither a time limit nor a deployment stops the undo."""
    record = begin(new(payment(), spec("b")), "pay")
    waiting = after(record, cancel(Canceller.CALLER))
    assert (waiting.epoch, ready_steps(waiting), waiting.decision is not None) == (1, [], True)
    ended = after(waiting, end(record, "pay"))
    assert (ended.epoch, ready_steps(ended)) == (2, ["pay"])
    record = new(payment(), on_exhausted=FailurePolicy.COMPENSATE, complete_within=20)
    record = after(begin(record, "pay", by=30), LOOK, seconds=23)
    undone = after(after(record, cancel(Canceller.CALLER), seconds=24), LOOK, seconds=35)
    assert (undone.direction, undone.error) == (Direction.UNDO, None)
    waiting = after(record, cancel(), seconds=24)
    undone = after(waiting, LOOK, seconds=35, settings=replace(SETTINGS, check=_is_not_deployed))
    assert (undone.direction, undone.suspension) == (Direction.UNDO, None)
    started = after(new(payment()), start(new(payment()), "pay"))
    suspended = after(started, LOOK, seconds=35, settings=replace(SETTINGS, check=_is_not_deployed))
    assert (suspended.direction, suspended.suspension is not None) == (Direction.DO, True)
    recovered = new(payment(), spec("b"))  # a recovery that waits for the payment is no end
    recovered = after(recovered, start(recovered, "pay", by=99), start(recovered, "b"))
    recovered = after(recovered, LOOK, seconds=35)
    suspended = after(recovered, LOOK, seconds=105, settings=replace(SETTINGS, check=_is_not_deployed))
    assert (recovered.decision is not None, suspended.suspension is not None) == (True, True)
