"""The ends of steps that a recorded change implies; counters of tasks are in `unit/telemetry`."""

from __future__ import annotations

from functions.pattern.identity import StepName
from functions.pattern.occurrences import StepEnd, occurrences
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, Outcome, Remedy
from functions.pattern.supervision import judge
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, each, step, workflow


def _ended(before: TaskRecord, changed: TaskRecord) -> list[tuple[str, Outcome, float]]:
    return [(end.shape.step, end.outcome, end.seconds) for end in occurrences(before, changed).steps]


def test_end_of_a_step_has_its_time_from_dispatch_to_outcome() -> None:
    """In the direction of the task."""
    record = told(pending(LINE), claimed(), started("pick", complete_by=12))
    changed = told(record, completed("pick"), now=after(4))
    assert occurrences(record, changed).steps == (
        StepEnd(record.step(StepName("pick")).shape, Direction.DO, Outcome.COMPLETED, 2),
    )


def test_end_of_an_item_is_an_end_of_its_step() -> None:
    """The item has no name of its own."""
    record = told(pending(workflow(each("call")), weight=2), claimed(), started("call.0", complete_by=11))
    assert _ended(record, told(record, completed("call.0"), now=after(2))) == [("call", Outcome.COMPLETED, 1)]


def test_step_that_may_fail_and_ran_out_of_time_has_expired() -> None:
    """No service refused it."""
    flow = workflow(step("mail", on_failure=Remedy.CONTINUE), step("file", "mail"))
    record = told(pending(flow), claimed(), started("mail", complete_by=20))
    given_up = judge(record, after(40), POLICY)
    assert given_up is not None
    assert _ended(record, told(record, given_up, now=after(40))) == [("mail", Outcome.EXPIRED, 30)]
