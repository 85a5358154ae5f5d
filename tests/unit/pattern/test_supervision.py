"""The Supervisor's judgement: patient with what is in time, persistent with what is not, and bounded."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from functions.pattern.events import GivenUp, Postponed, Recovered
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, Remedy
from functions.pattern.supervision import SupervisionPolicy, judge
from tests.fakes.interventions import done, giving_up, recovered, refused, resubmission, supervised
from tests.fakes.tasks import FIRST, SECOND, after, claimed, pending, started, told
from tests.fakes.workflows import LINE, TRIP, trip

POLICY = SupervisionPolicy(
    threshold=2,
    extended_waits=(timedelta(seconds=60), timedelta(seconds=300)),
    skew=timedelta(seconds=5),
    start_within=timedelta(seconds=30),
)
RUNNING = told(pending(TRIP), claimed(), started("flight", complete_by=20))
LATE = after(25)


def _with_failures(record: TaskRecord, count: int) -> TaskRecord:
    return replace(record, task=replace(record.task, failure_count=count))


def _given_up(record: TaskRecord) -> GivenUp:
    verdict = judge(_with_failures(record, 4), after(1000), POLICY)
    assert isinstance(verdict, GivenUp)
    return verdict


def test_task_in_time_is_left_alone() -> None:
    """The Supervisor looks again when the running step must have completed."""
    assert judge(RUNNING, after(10), POLICY) == Postponed(epoch=FIRST, due_at=after(20))


def test_clocks_may_differ() -> None:
    """Nothing is overdue before the skew allowance has passed as well."""
    assert isinstance(judge(RUNNING, after(24.999), POLICY), Postponed)
    assert isinstance(judge(RUNNING, after(25), POLICY), Recovered)


def test_task_that_was_never_picked_up_is_recovered() -> None:
    """A submission whose Scheduler was never started is found by the pick-up limit."""
    assert isinstance(judge(pending(LINE), after(34), POLICY), Postponed)
    assert isinstance(judge(pending(LINE), after(35), POLICY), Recovered)


@pytest.mark.parametrize("failures", [0, 1])
def test_up_to_the_threshold_recovery_comes_at_once(failures: int) -> None:
    """The next Scheduler has its usual time to take the task up."""
    verdict = judge(_with_failures(RUNNING, failures), LATE, POLICY)
    assert verdict == Recovered(epoch=FIRST, start_by=after(55), not_before=None)


@pytest.mark.parametrize(("failures", "wait"), [(2, 60), (3, 300)])
def test_waits_grow_above_the_threshold(failures: int, wait: float) -> None:
    """By up to a quarter more; the Scheduler's time begins after the extended wait."""
    verdict = judge(_with_failures(RUNNING, failures), LATE, POLICY)
    assert isinstance(verdict, Recovered)
    assert verdict.not_before is not None
    assert after(25 + wait) <= verdict.not_before <= after(25 + wait * 1.25)
    assert verdict.start_by == verdict.not_before + timedelta(seconds=30)


def test_tasks_that_failed_together_do_not_come_back_together() -> None:
    """Their waits differ, though each of them waits as long whenever it is asked."""
    failed = _with_failures(RUNNING, 2)
    tasks = [
        replace(failed, order=replace(failed.order, task=TaskId(f"task-{number}"))) for number in range(200)
    ]
    verdicts = [judge(task, LATE, POLICY) for task in tasks]
    assert verdicts == [judge(task, LATE, POLICY) for task in tasks]
    waits = Counter(verdict.not_before for verdict in verdicts if isinstance(verdict, Recovered))
    assert len(waits) > 100
    assert max(waits.values()) < 10


def test_task_is_not_overdue_during_its_extended_wait() -> None:
    """Neither while it waits nor while its Scheduler has time to take it up."""
    verdict = judge(_with_failures(RUNNING, 2), LATE, POLICY)
    assert isinstance(verdict, Recovered)
    waiting = supervised(RUNNING, verdict)
    assert judge(waiting, verdict.start_by, POLICY) == Postponed(epoch=SECOND, due_at=verdict.start_by)


def test_recovery_has_an_end() -> None:
    """After the last extended wait the task is given up, naming where it is stuck and how often."""
    verdict = _given_up(RUNNING)
    assert (verdict.epoch, verdict.hold) == (FIRST, False)
    assert verdict.reason == "flight: still overdue after 4 recoveries"
    assert verdict.start_by == after(1030)
    soon = replace(POLICY, threshold=1, extended_waits=())
    early = judge(_with_failures(RUNNING, 1), LATE, soon)
    assert isinstance(early, GivenUp)
    assert early.reason == "flight: still overdue after 1 recovery"


def test_task_that_no_scheduler_takes_is_given_up_as_such() -> None:
    """No step is to blame."""
    assert _given_up(pending(TRIP)).reason == "task: still overdue after 4 recoveries"


def test_undo_that_keeps_failing_is_held() -> None:
    """Undo is not undone; the operator learns which step is left."""
    turned = told(pending(TRIP), claimed(), *done("flight"), *refused("hotel"))
    undoing = told(turned, claimed(SECOND), started("flight", SECOND))
    verdict = _given_up(undoing)
    assert verdict.hold
    assert verdict.reason == "undo of flight: still overdue after 4 recoveries"


def test_step_that_must_not_run_twice_is_held_at_once() -> None:
    """Its outcome is unknown: neither another try nor an undo of the others is safe."""
    booking = told(
        pending(trip(hotel_idempotent=False)),
        claimed(),
        *done("flight"),
        started("hotel", complete_by=20),
    )
    verdict = judge(booking, LATE, POLICY)
    assert isinstance(verdict, GivenUp)
    assert verdict.hold
    assert verdict.reason == "hotel: its outcome is unknown, and it must not run twice"


def test_undo_goes_on_past_a_step_that_must_not_run_twice() -> None:
    """An operator asked for the undo, so its unknown outcome stops nothing any more."""
    workflow = trip(hotel_idempotent=False)
    booking = told(pending(workflow), claimed(), *done("flight"), started("hotel"))
    turned = replace(booking, task=replace(booking.task, direction=Direction.UNDO))
    assert isinstance(judge(turned, LATE, POLICY), Recovered)


@pytest.mark.parametrize("state", ["Processed", "Compensated", "Error"])
def test_finished_task_is_nobodys_concern(state: str) -> None:
    """Whatever its due row says."""
    ends = {
        "Processed": told(pending(TRIP), claimed(), *done("flight", "hotel", "car")),
        "Compensated": supervised(pending(TRIP), giving_up()),
        "Error": supervised(pending(trip(remedy=Remedy.HOLD)), giving_up()),
    }
    assert ends[state].task.process_state == state
    assert judge(ends[state], after(10_000), POLICY) is None


def test_operator_gives_a_task_all_its_recoveries_again() -> None:
    """The failure count starts anew."""
    held = supervised(recovered(pending(trip(remedy=Remedy.HOLD))), giving_up(SECOND))
    again = told(held, resubmission(SECOND))
    assert again.task.failure_count == 0
    assert isinstance(judge(again, after(10_000), POLICY), Recovered)
