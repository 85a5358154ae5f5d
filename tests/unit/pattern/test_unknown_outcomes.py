"""Steps that must not be repeated: late outcomes, and answers and results of an operator."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.pattern.announcements import announcements
from functions.pattern.events import DecisionDue, GivenUp, OperatorEvent, StepBroken, StepOutcome
from functions.pattern.identity import Epoch, StartId, StepName, scheduler_id
from functions.pattern.ready import ready_steps, undo_order
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import AnnouncementKind, Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.transitions import apply
from tests.fakes.interventions import (
    OPERATOR,
    cancellation,
    done,
    found_done,
    found_not_done,
    giving_up,
    recovery,
    refused,
    resubmission,
    result_given,
    undo_request,
)
from tests.fakes.tasks import (
    FIRST,
    SECOND,
    after,
    claimed,
    completed,
    failed,
    pending,
    started,
    told,
    unrecorded,
)
from tests.fakes.workflows import TASK, awaiting, step, workflow

PAY = StepName("pay")
FLOW = workflow(step("seat", undo=True), step("pay", "seat", undo=True, idempotent=False))
PAYING = told(pending(FLOW), claimed(), *done("seat"), started("pay", complete_by=5, start_id="one"))
LATER = after(10)
HELD = told(PAYING, giving_up(hold=True), now=LATER)
TURNED = told(HELD, undo_request(), claimed(SECOND), now=LATER)
PAID = replace(completed("pay", result=b'{"receipt":1}'), start_id=StartId("one"))
REFUSED = replace(failed("pay"), start_id=StartId("one"))
DONE_BUT = replace(unrecorded("pay"), start_id=StartId("one"))


def _told(record: TaskRecord, event: StepOutcome) -> TaskRecord:
    outcome = apply(record, event, LATER)
    assert not isinstance(outcome, Refused)
    assert outcome.task == record.task, "the task stays as it is"
    assert [each for each in outcome.steps if each.name != PAY] == [
        each for each in record.steps if each.name != PAY
    ]
    return outcome


@pytest.mark.parametrize("record", [PAYING, HELD, TURNED], ids=["late", "held", "turned back"])
@pytest.mark.parametrize(
    ("event", "state"),
    [(PAID, StepState.COMPLETED), (REFUSED, StepState.FAILED), (DONE_BUT, StepState.UNRECORDED)],
    ids=["done", "refused", "unrecorded"],
)
def test_what_is_known_late_stands_on_its_step(
    record: TaskRecord, event: StepOutcome, state: StepState
) -> None:
    """Whatever has become of the task; told again, it changes nothing."""
    known = _told(record, event)
    assert known.step(PAY).state is state
    if event is PAID:
        assert known.step(PAY).result == b'{"receipt":1}'
        assert apply(known, event, LATER) is known


def test_resubmission_never_repeats_what_is_known_done() -> None:
    """Nothing is left to do: it is `Processed`."""
    again = told(_told(HELD, PAID), resubmission(), now=LATER)
    assert again.task.process_state is ProcessState.PROCESSED


def test_step_that_was_done_after_all_is_no_refused_one() -> None:
    """Its Agent tells both of one start: an effect that may stand counts for more."""
    refused = _told(PAYING, REFUSED)
    assert _told(refused, PAID).step(PAY).state is StepState.COMPLETED


def test_undo_gets_the_result_that_came_late() -> None:
    """While the step is being undone, and when it is."""
    undoing = told(TURNED, started("pay", SECOND, start_id="undo"), now=LATER)
    known = _told(undoing, PAID)
    assert (known.step(PAY).state, known.step(PAY).result) == (StepState.UNDOING, b'{"receipt":1}')
    assert _told(known, PAID) is known, "told again"
    undone = told(undoing, completed("pay", SECOND), now=LATER)
    kept = _told(undone, PAID)
    assert (kept.step(PAY).state, kept.step(PAY).result) == (StepState.UNDONE, b'{"receipt":1}')
    assert isinstance(apply(undone, REFUSED, LATER), Refused)


def test_step_that_is_known_done_after_all_is_not_run_again() -> None:
    """The operator was wrong; its start is still the latest."""
    trusted = told(HELD, found_not_done("pay"), now=LATER)
    assert _told(trusted, PAID).step(PAY).state is StepState.COMPLETED
    assert isinstance(apply(trusted, REFUSED, LATER), Refused)


def test_step_that_was_begun_again_meanwhile_is_noted_and_alerted() -> None:
    """It was done twice, perhaps: somebody has to look."""
    trusted = told(HELD, found_not_done("pay"), now=LATER)
    again = told(trusted, claimed(SECOND), started("pay", SECOND, start_id="two"), now=LATER)
    noted = _told(again, PAID)
    assert noted.step(PAY).state is StepState.RUNNING
    assert noted.step(PAY).noted == "begun in epoch 1, too, which is known by now to have been done"
    [alert] = announcements(again, noted)
    assert (alert.kind, alert.step) == (AnnouncementKind.ALERT, PAY)
    assert alert.message_id.startswith("task-1.2.alert.noted.pay.")
    assert alert.reason == f"pay: {noted.step(PAY).noted}"
    assert apply(noted, PAID, LATER) is noted
    assert told(noted, completed("pay", SECOND), now=LATER).step(PAY).noted


@pytest.mark.parametrize("start_id", [None, StartId("another")])
def test_outcome_of_a_start_that_nobody_knows_counts_for_nothing(start_id: StartId | None) -> None:
    """Only who made the start, and its Agent, know its id."""
    for record in (HELD, TURNED):
        assert isinstance(apply(record, replace(PAID, start_id=start_id), LATER), Refused)
    # A late outcome of a repeatable step is refused.
    late = replace(completed("seat"), start_id=StartId("seat.1.1"))
    running = told(pending(FLOW), claimed(), started("seat", complete_by=5))
    assert isinstance(apply(running, late, LATER), Refused)


def test_refusal_that_is_known_after_the_answer_done_is_noted_and_alerted() -> None:
    """The order goes on unpaid."""
    given = told(HELD, found_done("pay"), now=LATER)
    noted = _told(given, REFUSED)
    assert noted.step(PAY).state is StepState.COMPLETED
    [alert] = announcements(given, noted)
    assert alert.reason == "pay: taken for done, but refused, as is known by now: no money"
    assert _told(noted, REFUSED) is noted, "told again"
    assert isinstance(apply(given, DONE_BUT, LATER), Refused)
    # Answer and late outcome agree.
    given = told(HELD, found_done("pay", result=b'{"by":"hand"}'), now=LATER)
    assert apply(given, PAID, LATER) is given
    assert (given.task.epoch, FIRST) == (Epoch(2), Epoch(1))


def test_refusal_told_again_after_an_operator_gave_a_result_is_no_news() -> None:
    """It was known: that is why the result is the operator's."""
    skipped = told(PAYING, REFUSED, result_given("pay"))
    assert skipped.step(PAY).state is StepState.COMPLETED
    assert isinstance(apply(skipped, REFUSED, LATER), Refused)


POLICY = SupervisionPolicy(
    threshold=2,
    extended_waits=(timedelta(seconds=60),),
    skew=timedelta(seconds=5),
    start_within=timedelta(seconds=30),
)
_OTHER = {Remedy.HOLD: Remedy.COMPENSATE, Remedy.COMPENSATE: Remedy.HOLD}
DECLINED = replace(failed("pay", error="402 declined"), start_id=StartId("one"))


def _paying(remedy: Remedy) -> TaskRecord:
    flow = workflow(step("seat", undo=True), step("pay", "seat", undo=True, idempotent=False), remedy=remedy)
    begun = (claimed(), started("seat"), completed("seat"), started("pay", complete_by=20, start_id="one"))
    return told(pending(flow), *begun)


def _supervised(record: TaskRecord) -> TaskRecord:
    """Have the Supervisor find it after complete-by and skew; what is known then costs no recovery."""
    verdict = judge(record, after(30), POLICY)
    assert verdict == DecisionDue(epoch=FIRST, start_by=after(60))
    return told(record, verdict, now=after(30))


def test_order_whose_last_payment_is_known_late_is_processed() -> None:
    """Everything is done, although recoveries were used up by an outage before."""
    paying = _paying(Remedy.COMPENSATE)
    paying = replace(paying, task=replace(paying.task, failure_count=3))
    paid = told(paying, PAID, now=after(21))
    assert paid.step(PAY).finished_at == after(21)
    ended = _supervised(paid).task
    assert (ended.process_state, ended.epoch, ended.failure_count) == (ProcessState.PROCESSED, FIRST, 3)
    assert ended.finished_at == after(30)


@pytest.mark.parametrize("remedy", [Remedy.COMPENSATE, Remedy.HOLD])
def test_refusal_that_is_known_late_does_what_refusals_do(remedy: Remedy) -> None:
    """At once, by the remedy for refusals, with its cause."""
    paying = _paying(remedy)
    paying = replace(
        paying, order=replace(paying.order, shape=replace(paying.order.shape, on_exhausted=_OTHER[remedy]))
    )
    stopped = _supervised(told(paying, DECLINED, now=after(21)))
    in_time = told(paying, DECLINED, now=after(19))
    assert stopped.task.last_error == in_time.task.last_error == "pay: 402 declined"
    assert stopped.task.process_state is in_time.task.process_state
    assert stopped.task.direction is in_time.task.direction
    assert [each.ended_by for each in stopped.history] == [each.ended_by for each in in_time.history]


def test_refusal_that_is_known_late_ends_what_is_overdue_beside_it() -> None:
    """A Supervisor that judged before the outcome came recovers nothing; nor does the next outcome wait."""
    flow = workflow(step("seat", undo=True), step("pay", idempotent=False), remedy=Remedy.COMPENSATE)
    both = told(pending(flow), claimed(), started("seat", complete_by=90))
    both = told(both, started("pay", complete_by=20, start_id="one"))
    declined = told(both, DECLINED, now=after(21))
    for turned in (
        told(declined, completed("seat"), now=after(22)),
        told(declined, recovery(), now=after(100)),
    ):
        assert (turned.task.direction, turned.task.failure_count) == (Direction.UNDO, 0)
        assert turned.history[0].ended_by is EpochEnd.REFUSED


def test_scheduler_that_finds_everything_done_ends_the_task() -> None:
    """The answer "not done" was wrong; the outcome came before the next Scheduler, which costs nothing."""
    held = told(_paying(Remedy.HOLD), giving_up(hold=True), now=after(30))
    paid = told(held, found_not_done("pay"), PAID, now=after(31))
    ended = told(paid, claimed(SECOND), now=after(32)).task
    assert (ended.process_state, ended.failure_count) == (ProcessState.PROCESSED, 0)
    assert (ended.finished_at, ended.locked_by) == (after(32), None)


def test_supervisor_that_judged_before_holds_nothing_that_is_known_by_now() -> None:
    """Between its read and its write, the outcome came."""
    paying = _paying(Remedy.HOLD)
    verdict = judge(paying, after(26), POLICY)
    assert isinstance(verdict, GivenUp)
    paid = told(paying, PAID, now=after(26))
    assert apply(paid, verdict, after(26)) == Refused(RefusalReason.NOT_OVERDUE)


def test_payment_that_is_known_after_its_definition_broke_is_not_made_again() -> None:
    """The answer "not done" was wrong; the next epoch met a defect before it sent anything."""
    held = told(_paying(Remedy.HOLD), giving_up(hold=True), now=after(30))
    trusted = told(held, found_not_done("pay"), claimed(SECOND), now=after(30))
    defect = StepBroken(
        epoch=SECOND,
        scheduler=scheduler_id(TASK, SECOND),
        step=PAY,
        error="KeyError",
        start_by=after(60),
    )
    broken = told(trusted, defect, now=after(30))
    assert told(broken, PAID, now=after(31)).step(PAY).state is StepState.COMPLETED


@pytest.mark.parametrize("kind", ["completed", "unrecorded"])
def test_charge_that_no_undo_covers_is_alerted(kind: str) -> None:
    """It stands on a Compensated order."""
    flow = workflow(step("seat"), step("pay", "seat", idempotent=False))
    paying = told(pending(flow), claimed(), *done("seat"), started("pay", complete_by=5, start_id="one"))
    held = told(paying, giving_up(hold=True), now=LATER)
    undone = told(held, found_not_done("pay"), cancellation(by_operator=True), now=LATER)
    assert undone.task.process_state is ProcessState.COMPENSATED
    event = completed("pay", result=b"{}") if kind == "completed" else unrecorded("pay")
    late = apply(undone, replace(event, start_id=StartId("one")), LATER)
    assert not isinstance(late, Refused)
    assert late.step(StepName("pay")).state in {StepState.COMPLETED, StepState.UNRECORDED}
    assert [each.kind for each in announcements(undone, late)] != [], "nobody hears of it"


TWO_PAYMENTS = workflow(
    step("seat", undo=True), step("pay", "seat", idempotent=False), step("fee", "seat", idempotent=False)
)


def _held(*steps: str) -> TaskRecord:
    """Return a task that is held, as nobody knows what came of these steps; others are done."""
    others = [name for name in ("pay", "fee") if name not in steps]
    starts = (started(name, complete_by=5) for name in steps)
    begun = told(pending(TWO_PAYMENTS), claimed(), *done("seat", *others), *starts)
    return told(begun, giving_up(hold=True), now=LATER)


def test_step_that_was_done_completes_with_its_result() -> None:
    """Nothing is left to do, so the task is `Processed`; who said it, and why, is in its history."""
    task = told(_held("pay"), found_done("pay", result=b'{"receipt":1}'), now=LATER)
    assert task.task.process_state is ProcessState.PROCESSED
    assert (task.step(PAY).state, task.step(PAY).result) == (StepState.COMPLETED, b'{"receipt":1}')
    (closed,) = task.history
    assert (closed.ended_by, closed.who) == (EpochEnd.FOUND_DONE, OPERATOR)
    assert closed.reason == "it is on the account"
    # Resubmission is refused until the answer is given.
    assert apply(_held("pay"), resubmission(), LATER) == Refused(RefusalReason.OUTCOME_UNKNOWN)


def test_step_that_was_not_done_runs_again() -> None:
    """In the next epoch, with its recoveries to spend."""
    task = told(_held("pay"), found_not_done("pay"), now=LATER)
    assert (task.task.process_state, task.task.epoch, task.task.failure_count) == (
        ProcessState.PENDING,
        SECOND,
        0,
    )
    assert task.history[0].ended_by is EpochEnd.FOUND_NOT_DONE
    again = told(task, claimed(SECOND), *done("pay", epoch=SECOND), now=LATER)
    assert again.task.process_state is ProcessState.PROCESSED


def test_each_unknown_outcome_is_asked_for() -> None:
    """The task stays held until the last answer; each is in the history."""
    first = told(_held("pay", "fee"), found_done("pay"), now=LATER)
    assert (first.task.process_state, first.task.epoch) == (ProcessState.ERROR, SECOND)
    assert first.task.last_error == "fee: its outcome is unknown, and it must not run twice"
    second = told(first, found_not_done("fee", SECOND), now=LATER)
    assert second.task.process_state is ProcessState.PENDING
    assert [closed.ended_by for closed in second.history] == [EpochEnd.FOUND_DONE, EpochEnd.FOUND_NOT_DONE]


@pytest.mark.parametrize("answer", [found_done("seat"), found_not_done("seat"), found_done("no-such-step")])
def test_what_is_not_in_question_is_not_answered(answer: OperatorEvent) -> None:
    """Its outcome is on record."""
    assert apply(_held("pay"), answer, LATER) == Refused(RefusalReason.NOT_IN_QUESTION)


@pytest.mark.parametrize("answer", [found_done("pay"), found_not_done("pay")])
def test_answer_counts_in_error_only(answer: OperatorEvent) -> None:
    """While it runs, its outcome may come by itself."""
    paying = told(pending(TWO_PAYMENTS), claimed(), *done("seat"), started("pay"))
    assert apply(paying, answer, after(5)) == Refused(RefusalReason.NOT_IN_ERROR)


def test_undo_needs_no_answer() -> None:
    """It covers what may have been done."""
    turned = told(_held("pay"), undo_request(), now=LATER)
    assert turned.task.direction is Direction.UNDO
    # Undo asks no question.
    turned = told(_held("pay"), undo_request(), claimed(SECOND), *refused("seat", SECOND), now=LATER)
    assert turned.task.process_state is ProcessState.ERROR
    assert apply(turned, found_done("pay", SECOND), LATER) == Refused(RefusalReason.NOT_IN_QUESTION)
    assert not isinstance(apply(turned, resubmission(SECOND), LATER), Refused)


BOOKING = workflow(
    step("seat", undo=True), step("pay", "seat", undo=True), step("mail", "pay"), remedy=Remedy.HOLD
)
REFUSED_PAYMENT = told(pending(BOOKING), claimed(), *done("seat"), *refused("pay"))
SILENT = told(
    told(pending(BOOKING), claimed(), *done("seat"), started("pay", complete_by=5)),
    giving_up(),
    now=LATER,
)


@pytest.mark.parametrize("record", [REFUSED_PAYMENT, SILENT], ids=["refused", "outcome unknown"])
def test_task_goes_on_after_the_step_with_the_result(record: TaskRecord) -> None:
    """In the next epoch; who gave it, and why, is on the one that ended."""
    given = told(record, result_given("pay", result=b'{"receipt":1}'), now=LATER)
    assert (given.step(PAY).state, given.step(PAY).result) == (StepState.COMPLETED, b'{"receipt":1}')
    assert (given.task.process_state, given.task.epoch) == (ProcessState.PENDING, SECOND)
    [closed] = given.history
    assert (closed.ended_by, closed.who, closed.reason) == (EpochEnd.RESULT_GIVEN, OPERATOR, "paid by hand")
    assert ready_steps(told(given, claimed(SECOND), now=LATER)) == ("mail",)


@pytest.mark.parametrize("record", [REFUSED_PAYMENT, SILENT], ids=["refused", "outcome unknown"])
def test_later_undo_covers_the_step_as_before(record: TaskRecord) -> None:
    """It was dispatched, and nobody knows what it has done."""
    given = told(record, result_given("pay"), claimed(SECOND), *refused("mail", SECOND), now=LATER)
    assert undo_order(told(given, undo_request(SECOND), now=LATER)) == ("pay", "seat")


def test_last_step_given_ends_the_task() -> None:
    """Nothing is left to run."""
    flow = workflow(step("pay"), remedy=Remedy.HOLD)
    given = told(pending(flow), claimed(), *refused("pay"), result_given("pay"))
    assert given.task.process_state is ProcessState.PROCESSED
    # Other steps that failed run again.
    flow = workflow(step("pay"), step("seat"), remedy=Remedy.HOLD)
    both = told(pending(flow), claimed(), started("pay"), *refused("seat"))
    given = told(both, result_given("pay"))
    assert [each.state for each in given.steps] == [StepState.COMPLETED, StepState.NOT_STARTED]


@pytest.mark.parametrize("name", ["seat", "mail", "no-such-step"])
def test_only_what_failed_is_given_a_result(name: str) -> None:
    """Not what is done, was never begun, or does not exist."""
    assert apply(REFUSED_PAYMENT, result_given(name), LATER) == Refused(RefusalReason.NOT_FAILED)
    # No result is given to an undo or outside error.
    undoing = told(REFUSED_PAYMENT, undo_request(), claimed(SECOND), *refused("pay", SECOND))
    assert apply(undoing, result_given("pay", SECOND), LATER) == Refused(RefusalReason.NOT_FAILED)
    running = told(pending(BOOKING), claimed(), *done("seat"), started("pay"))
    assert apply(running, result_given("pay"), LATER) == Refused(RefusalReason.NOT_IN_ERROR)


def test_what_was_gone_on_without_and_what_waits_is_given_none() -> None:
    """An event is told, and what may fail has failed."""
    flow = workflow(
        awaiting("approve"), step("ticket", on_failure=Remedy.CONTINUE), step("pay"), remedy=Remedy.HOLD
    )
    held = told(pending(flow), claimed(), started("approve"), *refused("ticket"), *refused("pay"))
    for name in ("approve", "ticket"):
        assert apply(held, result_given(name), LATER) == Refused(RefusalReason.NOT_FAILED)
    assert not isinstance(apply(held, result_given("pay"), LATER), Refused)


@pytest.mark.parametrize("remedy", [None, Remedy.CONTINUE])
def test_step_that_a_defect_stopped_is_given_a_result(remedy: Remedy | None) -> None:
    """Also one that may fail: its task was not gone on with."""
    flow = workflow(step("ticket", on_failure=remedy), step("mail", "ticket"))
    defect = StepBroken(
        epoch=FIRST, scheduler=scheduler_id(TASK, FIRST), step=StepName("ticket"), error="no", start_by=LATER
    )
    held = told(pending(flow), claimed(), defect)
    given = told(held, result_given("ticket"), claimed(SECOND), now=LATER)
    assert ready_steps(given) == ("mail",)
    assert undo_order(given) == ()


def test_answer_comes_first() -> None:
    """What must not be repeated is answered for, not skipped; what was done is given its own result."""
    flow = workflow(step("pay", idempotent=False), step("seat"), remedy=Remedy.HOLD)
    unknown = told(
        told(pending(flow), claimed(), started("pay", complete_by=5)), giving_up(hold=True), now=LATER
    )
    assert apply(unknown, result_given("pay"), LATER) == Refused(RefusalReason.OUTCOME_UNKNOWN)
    lost = told(pending(flow), claimed(), started("pay"), unrecorded("pay"))
    assert apply(lost, result_given("pay"), LATER) == Refused(RefusalReason.KNOWN_DONE)
