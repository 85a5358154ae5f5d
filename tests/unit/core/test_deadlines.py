"""Overdue steps are recovered; waits, look-ups and time limits end."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from functions.core.derive import (
    ProcessState,
    StepState,
    WaitingFor,
    derive,
    look_ups,
    needs_run,
    ready_steps,
    step_state,
)
from functions.core.record import (
    Direction,
    FailurePolicy,
    Operation,
    OperationState,
    RuleSettings,
    StepSpec,
    StepType,
    TaskRecord,
)
from functions.core.rules import fold
from functions.core.task_events import (
    ChildEnded,
    Due,
    EventReceived,
    GateReleased,
    OutcomeKind,
    Rejection,
    RequestsSent,
    RunStarted,
    StepBroken,
    StepDeferred,
    StepSkipped,
    Verdict,
)
from functions.messaging.agent_messages import Finding, outcome_of
from tests.unit.core.builders import (
    DUE,
    NOT_DEPLOYED,
    NOW,
    SETTINGS,
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


def test_recoveries_end() -> None:
    """The first ones are immediate, the later ones wait longer, by any settings; then the policy applies."""
    for policy, state, direction in (
        (FailurePolicy.KEEP, ProcessState.ERROR, Direction.DO),
        (FailurePolicy.COMPENSATE, ProcessState.COMPENSATED, Direction.UNDO),
    ):
        record, seconds = new(spec("a"), on_exhausted=policy), 0.0
        for failures in range(1, 6):
            seconds += 10_000
            record = after(record, DUE, seconds=seconds)
            assert record.failures == failures
            assert (record.resume_at is not None) is (failures > SETTINGS.threshold)
            assert ready_steps(record) == ([] if record.resume_at else ["a"])
            if record.resume_at is not None:
                wait = SETTINGS.extended_waits[failures - SETTINGS.threshold - 1]
                assert 1 <= (record.resume_at - at(seconds)) / wait <= 1.25
                record = after(record, DUE, seconds=seconds + 9_000)
        record = after(record, DUE, seconds=seconds + 20_000)
        assert (derive(record).state, record.direction) == (state, direction)
        assert record.reason == "the task: overdue after 5 recoveries"
        assert alerts(record) == ["error" if policy is FailurePolicy.KEEP else "exhausted"]
    record = replace(new(spec("a"), payment()), failures=4)
    record = after(after(record, start(record, "pay", by=90), start(record, "a")), DUE, seconds=40)
    for threshold, waits in ((3, (SETTINGS.skew,)), (3, ()), (0, (SETTINGS.skew,))):
        settings = RuleSettings(threshold=threshold, extended_waits=waits)
        recovered = after(record, end(record, "pay"), seconds=50, settings=settings)
        assert (recovered.epoch, recovered.resume_at is None) == (2, not waits)


def test_recovered_task_is_pending_and_unlocked_until_its_new_time() -> None:
    """Its next run has `start_within` for the pick-up."""
    columns = derive(after(begin(new(spec("a")), "a"), DUE, seconds=60))
    assert (columns.state, columns.locked_by) == (ProcessState.PENDING, None)
    assert columns.complete_by == at(60) + SETTINGS.start_within


def test_task_that_no_run_picks_up_is_deferred_while_submissions_are_delayed() -> None:
    """Beyond `defer_for` it counts as overdue. A resubmission and an undo begin with the whole time."""
    record = new(spec("a"))
    late = replace(DUE, is_overloaded=True)
    deferred = after(record, late, seconds=60)
    assert (deferred.failures, derive(deferred).waiting_for) == (0, WaitingFor.DEFERRED)
    resumed = after(deferred, Due(), seconds=400)
    assert (resumed.run, ready_steps(resumed), resumed.deferred_since) == (2, ["a"], at(60))
    assert after(resumed, late, seconds=60 + SETTINGS.defer_for.total_seconds()).failures == 1
    for event in (start(resumed, "a"), StepSkipped(epoch=1, step="a")):
        begun = after(resumed.with_operation("a", Operation(is_released=True)), event, seconds=401)
        assert (begun.deferred_since, begun.do("a").is_released) == (None, False)
    stopped = after(replace(resumed, failures=9), DUE, seconds=450)
    assert stopped.deferred_since == at(60)
    for again in (resubmit(stopped), undo_request(stopped)):
        assert after(stopped, again, seconds=451).deferred_since is None
    assert rejection(record, Due(), 60) is Rejection.NOT_DUE


def test_optional_step_without_an_outcome_fails() -> None:
    """The task continues without it, uncounted."""
    record = begin(new(spec("a", on_failure=FailurePolicy.CONTINUE), spec("b", "a")), "a")
    overdue = after(record, Due(), seconds=60)
    assert (overdue.do("a").error, ready_steps(overdue)) == ("outcome unknown", ["b"])


def test_unknown_payment_is_looked_up_once_before_an_operator_decides() -> None:
    """A run has taken the look-up, and no other run does."""
    record = begin(new(payment(can_find=True)), "pay")
    unknown = after(record, Due(), seconds=60)
    begun = after(unknown, find(unknown, "pay"), seconds=61)
    assert (look_ups(unknown), look_ups(begun), begun.do("pay").run) == (["pay"], [], 2)
    assert rejection(begun, find(unknown, "pay", by=95)) is Rejection.NOT_READY
    assert after(unknown, RunStarted(epoch=1, run=1)) is unknown  # it may have no free slot
    assert rejection(unknown, replace(find(unknown, "pay"), epoch=2)) is Rejection.STALE_EPOCH
    ready = after(after(new(payment(can_find=True), spec("a")), start(record, "pay")), DUE, seconds=60)
    taken = after(ready, find(ready, "pay"), seconds=61)  # the run starts "a" afterwards
    assert (needs_run(ready), needs_run(taken)) == (True, False)
    assert (unknown.run, unknown.finished_at) == (2, None)
    assert step_state(unknown, record.order.by_name["pay"]) is StepState.OUTCOME_UNKNOWN
    for kind, state in (
        (OutcomeKind.DONE, ProcessState.PROCESSED),
        (OutcomeKind.NOT_BEGUN, ProcessState.PENDING),
        (OutcomeKind.UNKNOWN, ProcessState.ERROR),
    ):
        found = after(unknown, end(unknown, "pay", kind, is_look_up=True), seconds=70)
        assert (derive(found).state, look_ups(found)) == (state, [])
    assert look_ups(after(unknown, NOT_DEPLOYED, seconds=61)) == []
    assert after(begun, RunStarted(epoch=1, run=2)).do("pay").finds_left == 1  # its run begins again
    lost = after(begun, DUE, seconds=95)  # with its run
    assert (look_ups(lost), lost.run, lost.failures) == (["pay"], 3, 0)
    lost = after(after(lost, find(lost, "pay", by=130), seconds=96), DUE, seconds=135)
    assert (derive(lost).state, lost.error) == (ProcessState.ERROR, "pay: its outcome is unknown (None)")
    assert look_ups(lost) == []


def test_start_that_is_looked_up_as_not_done_is_counted() -> None:
    """A service that always hangs uses the recoveries up; an optional step fails."""
    for policy, counts in ((None, (1, 2, 3, 4, 5, 5)), (FailurePolicy.CONTINUE, (0,))):
        record = new(payment(can_find=True, type=StepType.QUEUE, on_failure=policy))
        for number, failures in enumerate(counts):
            now = 5_000 * number
            record = record if record.resume_at is None else after(record, DUE, seconds=now - 1)
            record = after(begin(record, "pay", by=now, seconds=now), DUE, seconds=now + 40)
            found = end(record, "pay", OutcomeKind.NOT_BEGUN, is_look_up=True)
            record = after(record, found, seconds=now + 41)
            assert record.failures == failures
        assert record.error == (None if policy else "pay: overdue after 5 recoveries")


def _unknown(*others: StepSpec) -> TaskRecord:
    """Return a record with a payment of an Agent behind a queue, whose outcome became unknown at 60 s."""
    record = new(payment(can_find=True, type=StepType.QUEUE), *others)
    record = begin(record, "pay", *(each.name for each in others))
    return after(record, Due(queues=DUE.queues), seconds=60)


def test_look_up_by_the_agent_of_a_queue_is_requested_once() -> None:
    """A run records that it sends the look-up, and no further run starts for it."""
    unknown = _unknown()
    assert (unknown.run, needs_run(unknown), look_ups(unknown)) == (2, True, ["pay"])
    assert derive(unknown).waiting_for is WaitingFor.PICK_UP
    sent = after(unknown, find(unknown, "pay"), seconds=61)
    assert (sent.do("pay").run, needs_run(sent), look_ups(sent)) == (2, False, [])
    assert (derive(sent).waiting_for, derive(sent).due_at) == (WaitingFor.REPLY, at(90))
    assert after(sent, RunStarted(epoch=1, run=3), seconds=62) is sent
    unsent = after(unknown, find(unknown, "pay", send_by=80), seconds=61)
    for ending, due in (("", at(80)), (".2.find", at(80)), (".1.find", at(90))):  # of this epoch
        ids = frozenset({f"{unknown.do('pay').start_id}{ending}"})
        assert derive(after(unsent, RequestsSent(start_ids=ids))).due_at == due
    assert rejection(sent, DUE, 89) is Rejection.NOT_DUE
    lost = after(sent, DUE, seconds=95)
    assert (derive(lost).state, lost.do("pay").find_by) == (ProcessState.ERROR, None)


def test_request_that_may_not_be_sent_is_sent_by_another_run() -> None:
    """It counts no failure. A run that notes in time what it sent keeps its requests."""
    record = new(spec("q", type=StepType.QUEUE), spec("other"))
    begun = replace(start(record, "q", "s", by=3600), send_by=at(60))
    record = after(record, begun, start(record, "other", by=3600))
    sent = RequestsSent(start_ids=frozenset({"s"}))
    assert [derive(each).due_at for each in (record, after(record, sent))] == [at(60), at(3600)]
    lost = after(record, DUE, seconds=62)
    assert (lost.run, lost.failures, lost.start_by, derive(lost).due_at) == (2, 0, at(92), at(92))
    taken = after(lost, RunStarted(epoch=1, run=2, send_by=at(200)), seconds=63)
    assert (taken.do("q").run, derive(taken).due_at) == (2, at(200))
    assert derive(after(taken, sent)).due_at == at(3600)


def test_recovery_does_not_wait_for_a_payment_in_a_queue() -> None:
    """A run of the next epoch sends it if it may be unsent, and its outcome counts. A turn to undo waits."""
    pay, nap = payment(type=StepType.QUEUE), spec("nap", type=StepType.TIMER)
    record = new(pay, spec("b"), nap, spec("c", "nap"))
    record = after(record, replace(start(record, "pay", by=3600), send_by=at(60)))
    record = after(record, start(record, "b"), start(record, "nap", by=70))
    recovered = after(record, DUE, seconds=40)
    assert (recovered.epoch, recovered.do("pay").run, ready_steps(recovered)) == (2, 0, ["b"])
    assert ready_steps(after(recovered, Due(), seconds=70)) == ["b", "c"]
    begun = after(recovered, RunStarted(epoch=2, run=1, send_by=at(99)), seconds=41)
    unsent = after(begun, DUE, seconds=62)
    taken = after(unsent, RunStarted(epoch=2, run=unsent.run, send_by=at(99)), seconds=63)
    assert (unsent.run, taken.do("pay").run, taken.do("pay").send_by) == (2, 2, at(99))
    assert after(taken, end(record, "pay"), seconds=80).do("pay").state is OperationState.DONE
    waits = [after(record, turn) for turn in (cancel(), end(record, "b", OutcomeKind.REFUSED))]
    assert [(each.epoch, each.decision is not None) for each in waits] == [(1, True)] * 2
    assert "EpochEnd.CANCELLED" in str(after(waits[1], cancel()).decision)  # it is kept beside the refusal


def test_lost_run_of_a_look_up_is_replaced_beside_a_decision_that_waits() -> None:
    """A recovery would have to wait for the other payment."""
    record = new(payment(can_find=True, complete_within=3600), queue("b", idempotent=False))
    record = after(record, start(record, "pay", by=3600), start(record, "b", by=99_000), cancel())
    record = after(after(record, end(record, "pay", OutcomeKind.UNKNOWN)), DUE, seconds=60)
    assert (look_ups(record), record.run, derive(record).due_at) == (["pay"], 3, at(90))


def test_outcome_of_a_look_up_counts_only_while_it_is_open() -> None:
    """That of "done", and any other late outcome of the step, counts at any time."""
    unknown = _unknown()
    sent = after(unknown, find(unknown, "pay"), seconds=61)
    for kind, state in (
        (OutcomeKind.DONE, OperationState.DONE),
        (OutcomeKind.NOT_BEGUN, OperationState.NOT_STARTED),
        (OutcomeKind.UNKNOWN, OperationState.UNKNOWN),
    ):
        outcome = end(sent, "pay", kind, is_look_up=True)
        found = after(sent, outcome, seconds=70)
        assert (found.do("pay").state, found.do("pay").find_by) == (state, None)
        assert rejection(sent, replace(outcome, start_id="other"), 70) is Rejection.OTHER_START
        assert rejection(sent, replace(outcome, direction=Direction.UNDO), 70) is Rejection.NOT_OPEN
        lost = after(sent, DUE, seconds=95)
        for record, other in ((sent, replace(outcome, epoch=2)), (lost, outcome)):
            is_done = kind is OutcomeKind.DONE
            assert rejection(record, other, 96) is (None if is_done else Rejection.NOT_OPEN)
    running = begin(new(spec("a")), "a")
    assert rejection(running, end(running, "a", is_look_up=True)) is Rejection.NOT_OPEN
    assert after(sent, end(sent, "pay", OutcomeKind.UNKNOWN), seconds=62) is sent  # that of the call


def test_not_done_counts_only_with_a_fence() -> None:
    """Without a fence a request may still take effect, so that an operator decides."""
    assert outcome_of(Finding.NOT_DONE, fences_starts=True) is OutcomeKind.NOT_BEGUN
    assert outcome_of(Finding.NOT_DONE, fences_starts=False) is OutcomeKind.UNKNOWN
    assert outcome_of(Finding.DONE, fences_starts=False) is OutcomeKind.DONE
    assert outcome_of(Finding.UNKNOWN, fences_starts=True) is OutcomeKind.UNKNOWN


def test_repeated_payment_that_was_done_twice_is_noted() -> None:
    """The first start may take effect after an operator's "not done". A look-up may see the second one."""
    record = new(payment())
    first = begin(record, "pay", start_id="1")
    record = after(first, Due(), seconds=60)
    record = after(record, answer(record, "pay", Verdict.NOT_DONE), seconds=70)
    assert ready_steps(record) == ["pay"]
    record = begin(record, "pay", start_id="2", by=200, seconds=80)
    assert after(record, end(first, "pay", OutcomeKind.REFUSED), seconds=81) is record
    assert after(record, end(first, "pay", is_look_up=True), seconds=81) is record
    twice = after(record, end(first, "pay"), seconds=81)
    assert (twice.do("pay").state, alerts(twice)[-1]) == (OperationState.DONE, "noted")
    assert after(twice, end(first, "pay"), seconds=82) is twice
    assert rejection(record, end(first, "pay", start_id="3"), 81) is Rejection.OTHER_START
    done = after(twice, end(twice, "pay"), seconds=82)
    refused = after(done, end(twice, "pay", OutcomeKind.REFUSED), seconds=83)
    assert len({m.id for m in refused.outbox if m.body.get("cause") == "noted"}) == 2
    for kind in (OutcomeKind.UNKNOWN, OutcomeKind.NOT_BEGUN, OutcomeKind.REFUSED):  # of the second start
        known = after(record, end(record, "pay", kind), end(first, "pay", result='{"n":1}'), seconds=81)
        assert (known.do("pay").state, known.do("pay").result) == (OperationState.DONE, '{"n":1}')
        assert (known.step("pay").note is None) is (kind is not OutcomeKind.UNKNOWN)


def test_repeated_outcome_of_a_payment_that_may_start_again_changes_nothing() -> None:
    """Its reply is delivered twice. The task stays open."""
    record = new(payment(on_failure=FailurePolicy.KEEP))
    first = begin(record, "pay")
    asked = after(first, DUE, seconds=40)
    record = after(asked, answer(asked, "pay", Verdict.NOT_DONE), seconds=50)
    second = after(record, start(record, "pay", by=90), DUE, seconds=100)
    refused = OutcomeKind.REFUSED
    for sent, kind in ((first, refused), (first, OutcomeKind.NOT_BEGUN), (second, refused)):
        ended = after(sent, end(sent, "pay", kind), seconds=101)
        again = after(ended, GateReleased(gate="pay", most=1) if ended.error is None else resubmit(ended))
        assert (ready_steps(again), after(again, end(sent, "pay", kind))) == (["pay"], again)


def test_question_that_a_late_outcome_answers_stops_no_task() -> None:
    """Another payment is pending. Steps that become ready request a run. Any other decision stays."""
    record = new(payment(), spec("slow", idempotent=False), spec("b"), spec("c", "pay"), spec("d"))
    record = after(record, start(record, "pay"), start(record, "slow", by=900), start(record, "b", by=40))
    asked, done = after(record, DUE, seconds=33), end(record, "pay")
    answered = after(asked, done, seconds=34)
    assert (asked.decision is None, ready_steps(answered), answered.run) == (False, ["c", "d"], 2)
    refused = after(record, end(record, "b", OutcomeKind.REFUSED), done, seconds=20)
    for last in (end(record, "slow"), DUE):  # its outcome may be unknown
        assert (refused.epoch, after(refused, last, seconds=933).direction) == (1, Direction.UNDO)
    for event in (cancel(), StepBroken(epoch=1, step="d", error="KeyError"), DUE):
        decided = after(record, event, seconds=45)
        kept = after(decided, done, seconds=46).decision
        assert (kept is None, kept) == (False, decided.decision)


def test_late_outcomes_of_a_payment_are_kept() -> None:
    """In any epoch and at any time, also after an operator's verdict. A step that becomes ready is run."""
    record = new(payment(), spec("b", "pay"))
    started = begin(record, "pay")
    unknown = after(started, Due(), seconds=60)
    assert after(unknown, end(started, "pay", OutcomeKind.UNKNOWN), seconds=61).do("pay").error == "it failed"
    by_hand = after(unknown, answer(unknown, "pay", Verdict.DONE, '{"by":"hand"}'), seconds=61)
    refused = after(by_hand, end(started, "pay", OutcomeKind.REFUSED), seconds=62)
    assert (refused.do("pay").result, alerts(refused)[-1]) == ('{"by":"hand"}', "noted")
    other = end(started, "pay", OutcomeKind.NOT_BEGUN)
    assert alerts(after(by_hand, other, seconds=62))[-1] == "noted"
    not_done = after(unknown, answer(unknown, "pay", Verdict.NOT_DONE), seconds=61)
    late = end(started, "pay", OutcomeKind.UNKNOWN)
    assert after(not_done, late, seconds=62) is not_done
    assert after(not_done, end(started, "pay"), seconds=62).do("pay").state is OperationState.DONE
    deferred = after(not_done, StepDeferred(epoch=2, step="pay"), seconds=62)
    late_run = fold(deferred, end(started, "pay"), lambda _record, _now: [], at(63), SETTINGS).record
    assert (ready_steps(late_run), late_run.run) == (["b"], 2)
    failed = after(started, end(started, "pay", OutcomeKind.REFUSED))
    assert after(failed, end(started, "pay")).do("pay").state is OperationState.DONE


# Events, timers, tasks of other workflows


def _waiting(step_type: StepType, **fields: object) -> TaskRecord:
    record = new(spec("w", type=step_type, **fields))
    return begin(record, "w")


def test_event_may_arrive_before_its_step_starts() -> None:
    """A repeated event changes nothing; another body is rejected."""
    record = new(spec("a"), spec("ok", "a", type=StepType.EVENT))
    sent = EventReceived(step="ok", body='{"ok":1}', who="boss")
    early = after(record, sent)
    assert after(early, sent) is early
    assert rejection(early, EventReceived(step="ok", body="{}", who="boss")) is Rejection.NOT_OPEN
    assert rejection(record, EventReceived(step="a", body="{}", who="boss")) is Rejection.NOT_OPEN
    early = run(early, "a")
    ended = begin(early, "ok")
    assert (derive(ended).state, ended.do("ok").result) == (ProcessState.PROCESSED, '{"ok":1}')
    assert ended.step("ok").event_by == "boss"


def test_event_ends_its_step() -> None:
    """It is rejected after the end of the step or of the task."""
    record = _waiting(StepType.EVENT)
    sent = EventReceived(step="w", body="{}", who="boss")
    assert derive(after(record, sent)).state is ProcessState.PROCESSED
    assert rejection(after(record, cancel()), sent) is Rejection.FINISHED
    kept = after(_waiting(StepType.EVENT, on_failure=FailurePolicy.KEEP), Due(), seconds=30)
    assert rejection(kept, sent) is Rejection.NOT_OPEN
    again = after(kept, resubmit(kept), seconds=31)
    assert ready_steps(again) == ["w"]
    assert rejection(after(record, NOT_DEPLOYED), sent) is Rejection.NOT_DEPLOYED
    waiting = begin(new(payment(), spec("w", type=StepType.EVENT), spec("slow")), "pay", "w", by=99)
    waiting = begin(waiting, "slow", by=9)
    assert rejection(after(waiting, cancel()), sent) is Rejection.FINISHED
    assert rejection(after(waiting, DUE, seconds=20), sent, 20) is None  # a recovery waits for the payment


def test_event_that_does_not_arrive_in_time_applies_its_policy() -> None:
    """A default body counts as the event."""
    expired = after(_waiting(StepType.EVENT, on_failure=FailurePolicy.KEEP), Due(), seconds=30)
    assert expired.error == "w: no event arrived by 2026-01-01 00:00:30 UTC"
    optional = after(_waiting(StepType.EVENT, on_failure=FailurePolicy.CONTINUE), Due(), seconds=30)
    assert (derive(optional).state, optional.do("w").result) == (ProcessState.PROCESSED, None)
    assert derive(after(_waiting(StepType.EVENT), Due(), seconds=30)).state is ProcessState.COMPENSATED
    default = after(_waiting(StepType.EVENT, default='{"ok":0}'), Due(), seconds=30)
    assert (derive(default).state, default.do("w").result) == (ProcessState.PROCESSED, '{"ok":0}')


def test_timer_ends_at_its_time() -> None:
    """A time that has passed ends the step with its start."""
    assert derive(after(_waiting(StepType.TIMER), Due(), seconds=30)).state is ProcessState.PROCESSED
    record = new(spec("w", type=StepType.TIMER))
    assert derive(begin(record, "w", by=0)).state is ProcessState.PROCESSED
    turned = after(_waiting(StepType.TIMER), cancel())
    assert (turned.do("w").state, derive(turned).state) == (OperationState.SKIPPED, ProcessState.COMPENSATED)


def test_child_task_ends_its_step() -> None:
    """It was processed with an output, without one, or it was undone."""
    record = _waiting(StepType.WORKFLOW, workflow="child")
    assert [(m.kind, m.to) for m in record.outbox][-1] == ("start child", record.order.child("w"))
    done = ChildEnded(step="w", run_id="r", is_done=True, result='{"n":1}')
    assert after(record, done).do("w").result == '{"n":1}'
    no_output = ChildEnded(step="w", run_id="r", is_done=True)
    assert derive(after(record, no_output)).state is ProcessState.ERROR
    undone = ChildEnded(step="w", run_id="r", is_done=False, error="no car")
    refused = after(record, undone)
    assert refused.do("w").error == "no car"
    assert rejection(record, ChildEnded(step="w", run_id="x", is_done=True)) is Rejection.NOT_OPEN
    assert after(after(record, done), done) is not None
    noted = after(after(_kept_child(), undone), done)
    assert (noted.step("w").do.state, alerts(noted)[-1]) == (OperationState.REFUSED, "noted")
    assert noted.step("w").note == "recorded as refused, but its task was processed"
    overdue = after(_kept_child(), DUE, seconds=40)
    skipped = after(overdue, answer(overdue, "w", Verdict.DONE, "{}"), seconds=41)
    twice = after(skipped, done, seconds=42)
    assert twice.step("w").note == "recorded as done by hand, but its task was processed, too"
    assert (alerts(twice)[-1], after(twice, done, seconds=43)) == ("noted", twice)


def test_child_that_an_operator_undoes_later_is_noted_on_its_parent() -> None:
    """The parent stays processed, and its operators decide."""
    parent = new(spec("w", type=StepType.WORKFLOW))
    ended = ChildEnded(step="w", run_id="r", is_done=True, result="{}")
    parent = after(begin(parent, "w"), ended)
    noted = after(parent, replace(ended, is_done=False, result=None))
    assert (derive(noted).state, noted.do("w").result) == (ProcessState.PROCESSED, "{}")
    assert noted.step("w").note == "recorded as done, but its task was undone"
    assert alerts(noted)[-1] == "noted"
    assert after(noted, replace(ended, is_done=False, result=None)) is noted
    assert after(parent, ended) is parent
    undone = after(parent, cancel())
    assert after(undone, replace(ended, is_done=False, result=None)) is undone


def _kept_child() -> TaskRecord:
    record = new(spec("w", type=StepType.WORKFLOW), on_failure=FailurePolicy.KEEP)
    return begin(record, "w")


def test_undo_of_a_child_task_is_its_cancellation() -> None:
    """It is refused if the child does not end in time."""
    record = new(spec("w", type=StepType.WORKFLOW), spec("b"))
    record = after(record, start(record, "w"), cancel())
    record = begin(record, "w")
    assert record.outbox[-1].kind == "cancel child"
    ended = after(record, ChildEnded(step="w", run_id="r", is_done=False))
    assert derive(ended).state is ProcessState.COMPENSATED
    expired = after(record, Due(), seconds=40)
    assert expired.error == "undo of w: its task did not end by 2026-01-01 00:00:30 UTC"
    left = after(expired, answer(expired, "w", Verdict.LEFT), seconds=41)
    assert derive(left).state is ProcessState.COMPENSATED
    for is_done, compensated in product((True, False), (ended, left)):
        assert after(compensated, ChildEnded(step="w", run_id="r", is_done=is_done)) is compensated


# The task's own time limit


@pytest.mark.parametrize(
    ("policy", "direction"), [(FailurePolicy.COMPENSATE, Direction.UNDO), (FailurePolicy.KEEP, Direction.DO)]
)
def test_task_beyond_its_time_limit_ends_by_its_policy(policy: FailurePolicy, direction: Direction) -> None:
    """A resubmission starts the limit again."""
    record = begin(new(spec("a", undo=True), on_exhausted=policy, complete_within=20), "a")
    assert rejection(record, Due(), 25) is Rejection.NOT_DUE
    ended = after(record, DUE, seconds=25)
    assert (ended.direction, ended.reason) == (direction, "not finished within 20 s")
    if policy is FailurePolicy.KEEP:
        assert after(ended, resubmit(ended), seconds=100).expires_at == at(120)


def test_unknown_payment_is_settled_before_the_time_limit_applies() -> None:
    """The question comes first, then the policy. A verdict starts the limit again."""
    record = new(payment(can_find=True), on_exhausted=FailurePolicy.COMPENSATE, complete_within=20)
    record = begin(record, "pay")
    record = after(record, DUE, seconds=25)
    assert (record.decision is not None, record.epoch) == (True, 1)
    record = after(record, DUE, seconds=60)
    assert (look_ups(record), record.finished_at) == (["pay"], None)
    record = after(record, end(record, "pay", OutcomeKind.UNKNOWN, is_look_up=True), seconds=100)
    assert (derive(record).state, record.direction) == (ProcessState.ERROR, Direction.DO)
    record = after(record, answer(record, "pay", Verdict.NOT_DONE), seconds=110)
    assert rejection(record, DUE, 130) is Rejection.NOT_DUE
    record = after(record, DUE, seconds=135)
    assert (record.direction, record.order.submitted_at) == (Direction.UNDO, NOW)
