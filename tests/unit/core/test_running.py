"""Runs start ready steps once, and record outcomes of the start on record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from functions.core import record as core_record
from functions.core.derive import ProcessState, StepState, WaitingFor, derive, ready_steps, step_state
from functions.core.json_values import UnfitValueError
from functions.core.record import (
    NOTICES,
    Direction,
    FailurePolicy,
    MessageKind,
    OperationState,
    RuleSettings,
    StepType,
    TaskRecord,
    once,
)
from functions.core.rules import fold
from functions.core.task_events import (
    Event,
    OutcomeKind,
    Rejection,
    ResultRejected,
    RunStarted,
    StepBroken,
    StepSkipped,
    Verdict,
)
from tests.unit.core.builders import (
    DUE,
    NOW,
    SETTINGS,
    after,
    alerts,
    answer,
    at,
    begin,
    end,
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


def test_request_is_recorded_once_and_used_in_every_epoch() -> None:
    """One effect key never carries two bodies."""
    record = begin(new(spec("a")), "a", request='{"first":1}')
    record = after(record, DUE, seconds=60)
    assert (record.epoch, record.failures) == (2, 1)
    record = begin(record, "a", request='{"second":2}', by=90, seconds=61)
    assert record.do("a").request == '{"first":1}'
    assert record.order.effect_key("a", Direction.DO) == "t.r/a/do"


def test_outcome_of_an_old_epoch_is_rejected() -> None:
    """The epoch is the fencing token."""
    record = new(spec("a"))
    started = begin(record, "a")
    recovered = after(started, DUE, seconds=60)
    assert rejection(recovered, end(started, "a"), 61) is Rejection.STALE_EPOCH
    assert rejection(recovered, start(started, "a", "2"), 61) is Rejection.STALE_EPOCH
    assert rejection(recovered, RunStarted(epoch=1, run=1), 61) is Rejection.STALE_EPOCH
    assert rejection(recovered, ResultRejected(epoch=1, step="a", error="")) is Rejection.STALE_EPOCH
    assert rejection(started, ResultRejected(epoch=1, step="a", error="")) is Rejection.NOT_OPEN
    processed = after(started, end(started, "a"))
    assert rejection(processed, ResultRejected(epoch=1, step="a", error="")) is Rejection.FINISHED
    failed = run(new(spec("a", on_failure=FailurePolicy.KEEP)), "a", OutcomeKind.REFUSED)
    assert rejection(failed, answer(failed, "other", Verdict.DONE)) is Rejection.NOT_OPEN


def test_second_start_of_a_running_step_is_rejected() -> None:
    """One of two runs has the step. Its repeated start changes nothing."""
    record = begin(new(spec("a")), "a", start_id="1")
    assert rejection(record, start(record, "a", "2")) is Rejection.NOT_READY
    assert begin(record, "a", start_id="1") is record
    other = end(record, "a", start_id="3")
    assert rejection(record, other) is Rejection.OTHER_START
    assert rejection(record, replace(other, step="z")) is Rejection.NOT_OPEN
    assert rejection(record, start(record, "z")) is Rejection.NOT_READY


def test_late_outcome_of_a_repeatable_step_is_rejected() -> None:
    """Its deadline has passed, and another start may follow."""
    record = begin(new(spec("a")), "a")
    assert rejection(record, end(record, "a"), 31) is Rejection.LATE


def test_second_outcome_of_a_start_is_rejected() -> None:
    """The start id is right, so the reply is not counted as forged."""
    record = begin(new(spec("a", on_failure=FailurePolicy.CONTINUE), spec("b")), "a")
    done = end(record, "a")
    refused = after(record, end(record, "a", OutcomeKind.REFUSED))
    assert rejection(refused, done) is Rejection.ENDED
    assert rejection(refused, replace(done, start_id="other")) is Rejection.OTHER_START


def test_steps_start_when_their_needs_are_settled() -> None:
    """A skipped step settles, too; the task is processed with the last one."""
    record = new(spec("a"), spec("b", "a"), spec("c", "b"))
    assert (ready_steps(record), derive(record).waiting_for) == (["a"], WaitingFor.PICK_UP)
    record = begin(record, "a")
    columns = derive(record)
    assert (columns.state, columns.locked_by) == (ProcessState.PROCESSING, "t.1.1")
    assert columns.calls_under_way == 1
    assert (columns.waiting_for, columns.complete_by) == (WaitingFor.NONE, at(30))
    record = after(record, end(record, "a"))
    assert ready_steps(record) == ["b"]
    record = after(record, StepSkipped(epoch=1, step="b"))
    assert rejection(record, StepSkipped(epoch=1, step="b")) is Rejection.NOT_READY
    record = run(record, "c")
    assert derive(record).state is ProcessState.PROCESSED
    assert [m.kind for m in record.outbox] == [MessageKind.RECEIVED, MessageKind.COMPLETED]
    assert rejection(record, start(record, "a", "9")) is Rejection.FINISHED
    assert after(record, end(record, "c")) is record


def test_locked_by_is_the_newest_run_with_a_step_under_way() -> None:
    """It is empty between steps."""
    record = new(spec("a"), spec("b"), spec("c", "a"))
    record = after(record, start(record, "a"), replace(start(record, "b"), run=2))
    assert derive(record).locked_by == "t.1.2"
    record = after(record, end(record, "b"))
    assert derive(record).locked_by == "t.1.1"
    record = after(record, end(record, "a"))
    assert (derive(record).locked_by, derive(record).state) == (None, ProcessState.PENDING)
    assert ready_steps(record) == ["c"]


def test_items_run_within_at_once() -> None:
    """A for-each step without items is settled."""
    items = [spec(f"s.{n}", at_once=2, item=n) for n in range(3)]
    record = new(*items, spec("b", "s", "none"))
    assert ready_steps(record) == ["s.0", "s.1"]
    record = after(record, start(record, "s.0"))
    assert ready_steps(record) == ["s.1"]
    record = after(record, end(record, "s.0"))
    record = run(run(record, "s.1"), "s.2")
    assert ready_steps(record) == ["b"]


def test_refused_step_applies_the_failure_policy() -> None:
    """The step's own policy comes before the workflow's."""
    kept = run(new(spec("a"), on_failure=FailurePolicy.KEEP), "a", OutcomeKind.REFUSED)
    assert (derive(kept).state, kept.error) == (ProcessState.ERROR, "a: it failed")
    optional = spec("a", on_failure=FailurePolicy.CONTINUE)
    assert ready_steps(run(new(optional, spec("b", "a")), "a", OutcomeKind.REFUSED)) == ["b"]
    unknown = run(new(optional, spec("b", "a")), "a", OutcomeKind.UNKNOWN)
    assert (ready_steps(unknown), unknown.do("a").error) == (["b"], "outcome unknown (it failed)")
    compensated = run(new(spec("a", on_failure=FailurePolicy.COMPENSATE)), "a", OutcomeKind.REFUSED)
    assert derive(compensated).state is ProcessState.COMPENSATED


def test_unknown_outcome_makes_a_repeatable_step_overdue_at_once() -> None:
    """The Supervisor recovers it without a further wait."""
    record = run(new(spec("a")), "a", OutcomeKind.UNKNOWN)
    assert record.do("a").complete_by == at(1)
    record = after(record, DUE, seconds=4)
    assert (record.epoch, ready_steps(record)) == (2, ["a"])
    assert [each.outcome for each in record.do("a").attempts] == ["unknown"]


def test_run_that_starts_again_repeats_only_its_own_repeatable_calls() -> None:
    """The unanswered start stays on record as an attempt."""
    record = new(spec("a"), queue("q"), payment())
    record = after(record, *(start(record, name) for name in ("a", "q", "pay")))
    again = after(record, RunStarted(epoch=1, run=1))
    assert (ready_steps(again), again.do("a").attempts[0].outcome) == (["a"], "interrupted")
    assert step_state(again, record.order.by_name["a"]) is StepState.INTERRUPTED
    assert again.do("a").unknown_starts == 1
    assert after(record, RunStarted(epoch=1, run=2)) is record


def test_repeated_run_leaves_overdue_calls_to_the_supervisor() -> None:
    """So does a run that continues in another activity: only a recovery repeats them, and counts."""
    record = new(spec("a"))
    unknown = run(record, "a", OutcomeKind.UNKNOWN)
    overdue = begin(record, "a")
    for each, seconds in ((unknown, 1.5), (overdue, 30)):
        assert after(each, RunStarted(epoch=1, run=1), seconds=seconds) is each
        recovered = after(each, DUE, seconds=seconds + 2)
        assert (recovered.failures, ready_steps(recovered)) == (1, ["a"])


def test_broken_definition_stops_the_task() -> None:
    """Neither a retry nor an undo repairs it; an operator can supply the result."""
    record = new(spec("a"))
    broken = StepBroken(epoch=1, step="a", error="KeyError: 'x'")
    record = after(record, broken)
    assert (derive(record).state, record.error) == (ProcessState.ERROR, "a: KeyError: 'x'")
    assert rejection(record, broken) is Rejection.FINISHED
    done = after(record, answer(record, "a", Verdict.DONE, '{"by":"hand"}'))
    assert (derive(done).state, done.do("a").result) == (ProcessState.PROCESSED, '{"by":"hand"}')


def test_result_that_its_model_rejects_becomes_an_operators_question() -> None:
    """The operator supplies a result, resubmits a repeatable step, or requests the undo."""
    record = new(spec("a", undo=True), spec("b", "a"))
    record = run(record, "a", OutcomeKind.DONE_WITHOUT_RESULT, error="seat: missing")
    assert (derive(record).state, record.error) == (
        ProcessState.ERROR,
        "a: done, but its result is missing (seat: missing)",
    )
    assert step_state(record, record.order.by_name["a"]) is StepState.RESULT_MISSING
    by_hand = after(record, answer(record, "a", Verdict.DONE, '{"seat":1}'))
    assert (ready_steps(by_hand), by_hand.do("a").result) == (["b"], '{"seat":1}')
    again = after(record, resubmit(record))
    assert (ready_steps(again), again.step("a").generation(Direction.DO)) == (["a"], 0)
    assert ready_steps(after(record, undo_request(record))) == ["a"]
    once = run(new(payment()), "pay", OutcomeKind.DONE_WITHOUT_RESULT)
    assert rejection(once, resubmit(once)) is Rejection.OUTCOME_UNKNOWN


def test_one_of_several_rejected_results_is_removed_beside_a_payment() -> None:
    """The rows of all may not fit into one transaction; the others follow after the answer."""
    record = new(payment(), spec("a"), spec("c"), spec("b", "a", "c"))
    record = run(run(begin(record, "pay"), "a"), "c")
    rejected = ResultRejected(epoch=1, step="a", error="seat: missing")
    decided = after(record, rejected)
    assert decided.decision is not None
    assert rejection(decided, replace(rejected, step="c")) is Rejection.FINISHED


def _with_output(output: object) -> RuleSettings:
    def make(_record: TaskRecord) -> str | None:
        if isinstance(output, Exception):
            raise output
        return str(output)

    return replace(SETTINGS, make_output=make)


def test_output_is_made_with_the_end_of_the_task() -> None:
    """An error in its function costs the output and not the result."""
    record = begin(new(spec("a")), "a")
    done = end(record, "a")
    assert after(record, done, settings=_with_output('{"n":1}')).output == '{"n":1}'
    failed = after(record, done, settings=_with_output(UnfitValueError("no total")))
    assert (derive(failed).state, failed.reason) == (ProcessState.PROCESSED, "no output: no total")
    assert alerts(failed) == ["no output"]


def test_outcome_and_next_starts_are_one_change() -> None:
    """A run that leaves ready steps to others moves their pick-up."""
    record = begin(new(spec("a"), spec("b", "a"), spec("c", "a", on_failure=FailurePolicy.CONTINUE)), "a")

    def skip_then_start(record: TaskRecord, _now: datetime) -> Sequence[Event]:
        ready = ready_steps(record)
        if "c" in ready:
            return [StepSkipped(epoch=1, step="c"), StepSkipped(epoch=7, step="b")]
        return [start(record, name) for name in ready]

    applied = fold(record, end(record, "a"), skip_then_start, at(5), SETTINGS).record
    assert (applied.do("c").state, applied.do("b").state) == (OperationState.SKIPPED, OperationState.RUNNING)
    left = fold(record, end(record, "a"), lambda *_: [], at(5), SETTINGS).record
    assert (left.run, left.start_by, derive(left).waiting_for) == (1, at(35), WaitingFor.PICK_UP)
    assert fold(record, None, lambda *_: [], at(5), SETTINGS).record is record


def test_columns_do_not_depend_on_messages() -> None:
    """The outbox is no fact."""
    record = new(spec("a"))
    columns = derive(record)
    assert (columns.state, columns.locked_by, columns.complete_by) == (ProcessState.PENDING, None, None)
    assert (columns.due_at, record.failures) == (at(30), 0)
    assert derive(record) == derive(replace(record, outbox=(), closed=()))
    assert new(spec("a"), reply_to=None).outbox == ()


def test_copy_of_a_record_has_the_fields_of_its_class_only() -> None:
    """Computed values are no fields. Each belongs to its function, not to the function's name."""
    record = new(spec("a"))
    assert [once(each)(record) for each in (lambda _: 1, lambda _: 2)] == [1, 2]
    assert core_record.replace(record, failures=0) == record
    wrong: dict[str, Any] = {"failure": 1}
    with pytest.raises(TypeError, match=r"TaskRecord .* failure$"):
        core_record.replace(record, **wrong)


def test_notices_carry_the_callers_correlation_id() -> None:
    """From the receipt of the order to its end; with the workflow, and the epoch in which they were made."""
    record = new(spec("a", undo=True), spec("b", "a"), on_failure=FailurePolicy.KEEP, correlation_id="c-1")
    failed = run(run(record, "a"), "b", OutcomeKind.REFUSED)
    undone = run(after(failed, undo_request(failed)), "a")
    notices = {m.kind: m.body["correlation_id"] for each in (failed, undone) for m in each.outbox}
    assert {MessageKind.RECEIVED, MessageKind.FAILED, MessageKind.COMPENSATED} <= notices.keys()
    completed = run(new(spec("a"), correlation_id="c-1"), "a").outbox[-1]
    assert {*notices.values(), completed.body["correlation_id"]} == {"c-1"}
    epochs = [(m.kind, m.body["workflow"], m.body["epoch"]) for m in undone.outbox if m.kind in NOTICES]
    assert epochs[0] == (MessageKind.RECEIVED, "w", 1)
    assert epochs[-1] == (MessageKind.COMPENSATED, "w", undone.epoch)


@pytest.mark.parametrize(
    ("step_type", "waiting_for"),
    [
        (StepType.EVENT, WaitingFor.EVENT),
        (StepType.WORKFLOW, WaitingFor.CHILD),
        (StepType.TIMER, WaitingFor.TIMER),
    ],
)
def test_waiting_step_is_no_call(step_type: StepType, waiting_for: WaitingFor) -> None:
    """Its task is pending, and no run holds it."""
    record = begin(new(spec("a", type=step_type)), "a")
    columns = derive(record)
    seen = (columns.waiting_for, columns.state, columns.locked_by)
    assert seen == (waiting_for, ProcessState.PENDING, None)
    assert (columns.wake_at, columns.calls_under_way) == (at(30), 0)
    assert step_state(record, record.order.by_name["a"]) is StepState.WAITING
    assert record.order.submitted_at == NOW
