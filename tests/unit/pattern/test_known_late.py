"""What became known late is what the Supervisor and the next epoch act on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from functions.pattern.events import DecisionDue, GivenUp, StepBroken
from functions.pattern.identity import StartId, StepName, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, StepState
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.transitions import apply
from tests.fakes.interventions import found_not_done, giving_up, recovery
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow

POLICY = SupervisionPolicy(
    threshold=2,
    extended_waits=(timedelta(seconds=60),),
    skew=timedelta(seconds=5),
    start_within=timedelta(seconds=30),
)
PAY = StepName("pay")
_OTHER = {Remedy.HOLD: Remedy.COMPENSATE, Remedy.COMPENSATE: Remedy.HOLD}
PAID = replace(completed("pay"), start_id=StartId("one"))
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
