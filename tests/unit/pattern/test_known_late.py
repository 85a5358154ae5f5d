"""What became known late is what the Supervisor and the next epoch act on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from functions.pattern.events import GivenUp, RefusalReason, Refused, StepBroken
from functions.pattern.identity import StartId, StepName, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, Remedy, StepState
from functions.pattern.supervision import SupervisionPolicy, judge
from functions.pattern.transitions import apply
from tests.fakes.interventions import found_not_done, giving_up
from tests.fakes.tasks import SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow

POLICY = SupervisionPolicy(
    threshold=2,
    extended_waits=(timedelta(seconds=60),),
    skew=timedelta(seconds=5),
    start_within=timedelta(seconds=30),
)
PAID = replace(completed("pay"), start_id=StartId("one"))


def _paying(remedy: Remedy) -> TaskRecord:
    flow = workflow(step("seat", undo=True), step("pay", "seat", undo=True, idempotent=False), remedy=remedy)
    begun = (claimed(), started("seat"), completed("seat"), started("pay", complete_by=20, start_id="one"))
    return told(pending(flow), *begun)


def test_order_whose_last_payment_is_known_late_is_processed() -> None:
    """Everything is done, although recoveries were used up by an outage before."""
    paying = _paying(Remedy.COMPENSATE)
    paying = replace(paying, task=replace(paying.task, failure_count=3))
    paid = told(paying, PAID, now=after(21))
    verdict = judge(paid, after(30), POLICY)
    assert verdict is not None
    assert told(paid, verdict, now=after(30)).task.process_state is ProcessState.PROCESSED


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
        step=StepName("pay"),
        error="KeyError",
        start_by=after(60),
    )
    broken = told(trusted, defect, now=after(30))
    assert told(broken, PAID, now=after(31)).step(StepName("pay")).state is StepState.COMPLETED
