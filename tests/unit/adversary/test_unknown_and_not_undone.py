"""A charge that can't be undone, of unknown outcome, beside a step that is refused: somebody must be told."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.announcements import announcements
from functions.pattern.events import DecisionDue, Refused
from functions.pattern.identity import StartId
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind, ProcessState, Remedy, StepState
from functions.pattern.supervision import judge
from functions.pattern.transitions import apply
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import step, workflow

BOOKING = workflow(
    step("pay", idempotent=False, complete_within=20),  # no undo: a refund is the accountants' work
    step("seat"),
    name="booking",
    remedy=Remedy.COMPENSATE,
)


def _ended() -> tuple[TaskRecord, TaskRecord]:
    """Refuse the seat while the payment runs, of which nothing is heard until its time has passed."""
    running = told(
        pending(BOOKING), claimed(), started("pay", complete_by=20, start_id="only-one"), started("seat")
    )
    decided = told(running, failed("seat"), now=after(2))
    assert decided.step(failed("pay").step).state is StepState.RUNNING
    event = judge(decided, after(30), POLICY)
    assert isinstance(event, DecisionDue)
    return decided, told(decided, event, now=after(30))


def _alerts(before: TaskRecord, now: TaskRecord) -> list[str | None]:
    return [each.reason for each in announcements(before, now) if each.kind is AnnouncementKind.ALERT]


def test_unknown_outcome_of_what_cannot_be_undone_is_told() -> None:
    """Issue 1: when its outcome is unknown, the task is held in `Error` with that reason."""
    decided, ended = _ended()
    assert ended.task.process_state is ProcessState.ERROR or _alerts(decided, ended)


def test_charge_that_is_known_to_stand_on_a_compensated_order_is_told() -> None:
    """Its known outcome is kept on the step, where nobody looks: the order says that everything is undone."""
    _, ended = _ended()
    late = apply(ended, replace(completed("pay"), start_id=StartId("only-one")), after(40))
    assert not isinstance(late, Refused)
    assert late.task.process_state is not ProcessState.COMPENSATED or _alerts(ended, late)
