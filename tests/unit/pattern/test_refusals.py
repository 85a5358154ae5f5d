"""What must not change a record does not: old epochs, strangers, late and repeated outcomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.errors import IllegalTransitionError
from functions.pattern.events import SchedulerEvent
from functions.pattern.identity import Epoch, SchedulerId, StartId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.transitions import apply
from tests.fakes.clock import START
from tests.fakes.interventions import recovered
from tests.fakes.tasks import (
    SECOND,
    after,
    claimed,
    completed,
    failed,
    pending,
    started,
    told,
)
from tests.fakes.workflows import LINE, step, workflow

CLAIMED = told(pending(LINE), claimed())
RUNNING = told(CLAIMED, started("pick", complete_by=20))
PICKED = told(RUNNING, completed("pick"))
PROCESSED = told(PICKED, started("send"), completed("send"))
ERROR = told(PICKED, started("send"), failed("send"))
RECOVERED = told(recovered(RUNNING), claimed(SECOND))

EVENTS: list[SchedulerEvent] = [claimed(), started("pick"), completed("pick"), failed("pick")]
STEP_EVENTS = EVENTS[1:]
OUTCOMES: list[SchedulerEvent] = [completed("pick"), failed("pick")]


def _by_a_stranger(event: SchedulerEvent) -> SchedulerEvent:
    return replace(event, scheduler=SchedulerId("task-1.1-stranger"))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_older_epoch_may_write_nothing(event: SchedulerEvent) -> None:
    """The task was recovered since: whatever the old attempt says counts for nothing."""
    assert apply(RECOVERED, event, START) == Refused(RefusalReason.STALE_EPOCH)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_only_the_holder_may_write(event: SchedulerEvent) -> None:
    """Of two Schedulers of one epoch the second is refused."""
    assert apply(RUNNING, _by_a_stranger(event), START) == Refused(RefusalReason.NOT_HOLDER)


@pytest.mark.parametrize("event", STEP_EVENTS, ids=lambda event: type(event).__name__)
def test_nobody_writes_before_the_claim(event: SchedulerEvent) -> None:
    """A task that nobody holds takes no step."""
    assert apply(pending(LINE), event, START) == Refused(RefusalReason.NOT_HOLDER)


@pytest.mark.parametrize("event", OUTCOMES, ids=lambda event: type(event).__name__)
def test_late_outcome_is_refused(event: SchedulerEvent) -> None:
    """At complete-by it still counts; a moment later it does not."""
    assert not isinstance(apply(RUNNING, event, after(20)), Refused)
    assert apply(RUNNING, event, after(20.000001)) == Refused(RefusalReason.LATE)


@pytest.mark.parametrize("record", [PROCESSED, ERROR], ids=["Processed", "Error"])
@pytest.mark.parametrize(
    "event", [claimed(), started("send"), failed("send")], ids=lambda event: type(event).__name__
)
def test_finished_task_takes_nothing(record: TaskRecord, event: SchedulerEvent) -> None:
    """Only an operator leads out of `Processed` and `Error`."""
    assert apply(record, event, START) == Refused(RefusalReason.FINISHED)


def test_step_beside_a_refused_one_is_told_that_all_is_over() -> None:
    """Its own completion comes after the task's `Error`."""
    both = told(pending(), claimed(), started("open"), completed("open"), started("left"), started("right"))
    assert apply(told(both, failed("left")), completed("right"), START) == Refused(RefusalReason.FINISHED)


@pytest.mark.parametrize(
    ("record", "event"),
    [
        (CLAIMED, claimed(start_by=99)),
        (RUNNING, started("pick", complete_by=99)),
        (PICKED, started("pick", complete_by=99)),
        (PICKED, completed("pick", result=b'{"another":1}')),
        (PROCESSED, completed("send")),
        (ERROR, completed("pick")),
    ],
    ids=[
        "claim",
        "start",
        "start of what is completed",
        "outcome",
        "last outcome",
        "outcome before an Error",
    ],
)
def test_what_is_told_again_changes_nothing(record: TaskRecord, event: SchedulerEvent) -> None:
    """The very same record comes back, so that nothing is written; first results and times stand."""
    assert apply(record, event, after(99)) is record


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_epoch_from_the_future_is_a_defect(event: SchedulerEvent) -> None:
    """An epoch that the store never gave out can't come from a Scheduler of ours."""
    with pytest.raises(IllegalTransitionError, match=r"task task-1 \(Processing, epoch 1\) can't take"):
        apply(RUNNING, replace(event, epoch=Epoch(2)), START)


@pytest.mark.parametrize("event", OUTCOMES, ids=lambda event: type(event).__name__)
def test_outcome_of_a_step_that_never_started_is_a_defect(event: SchedulerEvent) -> None:
    """An Agent records the start before it calls."""
    with pytest.raises(IllegalTransitionError):
        apply(CLAIMED, event, START)


def test_refusal_of_a_completed_step_is_a_defect() -> None:
    """A step has one outcome in an epoch."""
    with pytest.raises(IllegalTransitionError):
        apply(PICKED, failed("pick"), START)


@pytest.mark.parametrize("idempotent", [True, False])
def test_other_outcome_of_a_start_that_ran_twice_is_refused(idempotent: bool) -> None:  # noqa: FBT001 - a table
    """Two lives of one activity may be told different things; that is no defect of ours."""
    flow = workflow(step("pick", idempotent=idempotent), step("send", "pick"))
    running = told(pending(flow), claimed(), started("pick", start_id="one"))
    done, refused = (replace(event, start_id=StartId("one")) for event in (completed("pick"), failed("pick")))
    assert apply(told(running, done), refused, after(1)) == Refused(RefusalReason.LATE)
    beside = workflow(step("pick", idempotent=idempotent), step("pay", idempotent=False))
    waiting = told(pending(beside), claimed(), started("pick", start_id="one"), started("pay"), refused)
    again = apply(waiting, done, after(1))
    assert again == Refused(RefusalReason.LATE) if idempotent else not isinstance(again, Refused)


@pytest.mark.parametrize(
    "event", [completed("pick", SECOND), failed("pick", SECOND)], ids=lambda event: type(event).__name__
)
def test_outcome_of_a_step_that_this_epoch_did_not_start_is_a_defect(event: SchedulerEvent) -> None:
    """The step runs since the epoch before; this one must start it first."""
    with pytest.raises(IllegalTransitionError):
        apply(RECOVERED, event, START)


def test_running_step_without_complete_by_is_a_defect() -> None:
    """Rows that were written by hand are not believed."""
    step = replace(RUNNING.steps[0], complete_by=None)
    with pytest.raises(IllegalTransitionError):
        apply(RUNNING.with_step(step), completed("pick"), START)
