"""A task that an operator parked waits for an operator: no deployment, sweep or Scheduler has it go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import announcements, starts_scheduler
from functions.pattern.events import Event, Parked, Released
from functions.pattern.identity import Epoch, StepName
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import Direction, EpochEnd, ProcessState, StepState
from functions.pattern.supervision import judge
from functions.pattern.transitions import apply
from functions.store.keys import index_row
from tests.fakes.clock import START
from tests.fakes.interventions import (
    OPERATOR,
    cancellation,
    done,
    park_request,
    recovered,
    recovery,
    refused,
    undo_request,
    unparking,
)
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import FIRST, SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.workflows import LINE, TASK, step, workflow
from tests.unit.pattern.waiting_tasks import event_of, handed_back, waiting

THIRD = Epoch(3)
RUNNING = told(pending(LINE), claimed(), started("pick"))
PARKED = told(RUNNING, park_request())
ONCE = workflow(step("pick"), step("pay", idempotent=False))
UNDONE = workflow(step("open", undo=True), step("close", "open"))


def test_it_is_held_by_nobody_and_who_parked_it_and_why_is_on_record() -> None:
    """On the epoch that ended; no Scheduler is asked for the next, and nobody is alerted."""
    task = PARKED.task
    assert (task.process_state, task.locked_by, task.complete_by) == (ProcessState.PENDING, None, None)
    assert (task.epoch, task.last_error, task.is_parked) == (SECOND, "the site is closed", True)
    [closed] = PARKED.history
    assert (closed.ended_by, closed.who, closed.reason) == (EpochEnd.PARKED, OPERATOR, "the site is closed")
    assert index_row(task) == f"!parked|~operator|{TASK}"
    assert not starts_scheduler(RUNNING, PARKED)
    assert announcements(RUNNING, PARKED) == ()


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Released(epoch=SECOND, start_by=after(300)), RefusalReason.NOT_PARKED),
        (claimed(SECOND), RefusalReason.PARKED),
        (recovery(SECOND), RefusalReason.PARKED),
        (completed("pick"), RefusalReason.STALE_EPOCH),
        (undo_request(SECOND), RefusalReason.NOT_IN_ERROR),
        (park_request(SECOND), RefusalReason.PARKED_BY_OPERATOR),
        (park_request(), RefusalReason.STALE_EPOCH),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nobody_else_has_it_go_on(event: Event, reason: RefusalReason) -> None:
    """However long it waits."""
    assert apply(PARKED, event, after(1_000_000)) == Refused(reason)


def test_no_sweep_judges_it_or_changes_its_reason() -> None:
    """Also when its version is not deployed meanwhile."""
    assert judge(PARKED, after(1_000_000), POLICY) is None
    lacking = Parked(epoch=SECOND, scheduler=None, reason="not deployed here")
    assert apply(PARKED, lacking, after(90)) is PARKED


def test_unparked_it_goes_on_where_it_was_uncounted() -> None:
    """Its recoveries are those from before; what was under way is called again under the same key."""
    record = told(recovered(RUNNING), park_request(SECOND))
    again = told(record, unparking(THIRD), now=after(90))
    assert (again.task.epoch, again.task.failure_count, again.task.is_parked) == (4, 1, False)
    assert (again.history[-1].ended_by, again.history[-1].who) == (EpochEnd.UNPARKED, OPERATOR)
    assert starts_scheduler(record, again)
    assert ready_steps(told(again, claimed(Epoch(4)), now=after(91))) == ("pick",)


def test_what_waits_for_a_deployment_can_be_parked_and_then_waits_for_an_operator() -> None:
    """The deployment does not release it; an operator can't unpark what nobody parked."""
    held = told(pending(LINE), claimed())
    lacking = told(held, Parked(epoch=FIRST, scheduler=held.task.locked_by, reason="not deployed"))
    assert apply(lacking, unparking(), START) == Refused(RefusalReason.NOT_PARKED)
    parked = told(lacking, park_request())
    assert parked.task.is_parked_by_operator
    assert apply(parked, Released(epoch=SECOND, start_by=after(9)), START) == Refused(
        RefusalReason.NOT_PARKED
    )


def test_cancelled_it_turns_back_and_is_parked_no_more() -> None:
    """An undo can be parked as well."""
    undoing = told(
        pending(UNDONE),
        claimed(),
        *done("open"),
        park_request(),
        cancellation(by_operator=True),
    )
    assert (undoing.task.direction, undoing.task.is_parked) == (Direction.UNDO, False)
    again = told(undoing, park_request(THIRD))
    assert (again.task.direction, again.task.is_parked_by_operator) == (Direction.UNDO, True)


def test_cancelled_by_an_operator_on_its_way_back_it_goes_on() -> None:
    """It is said to be done then; others who cancel it, as its caller or its parent, leave it parked."""
    turned = told(pending(UNDONE), claimed(), *done("open"), cancellation(), park_request(SECOND))
    by_others = cancellation(), cancellation(by_operator=True)
    assert [apply(turned, each, START) for each in by_others] == [turned, turned]
    gone_on = told(turned, replace(cancellation(by_operator=True), seen=turned.task))
    assert (gone_on.task.direction, gone_on.task.is_parked) == (Direction.UNDO, False)
    assert starts_scheduler(turned, gone_on)
    assert gone_on.history[-1].ended_by is EpochEnd.CANCELLED


@pytest.mark.parametrize(
    "record",
    [
        told(pending(ONCE), claimed(), started("pay", complete_by=5)),
        told(pending(ONCE), claimed(), started("pick"), started("pay", complete_by=60), failed("pick")),
    ],
    ids=["running", "decided"],
)
def test_it_is_not_parked_round_a_step_that_must_not_be_repeated(record: TaskRecord) -> None:
    """Its outcome has to find its epoch; also beyond its time, when a sweep is about to hold it."""
    for at in (2, 10):
        assert apply(record, park_request(), after(at)) == Refused(RefusalReason.OUTCOME_AWAITED)


def test_only_what_is_under_way_is_parked() -> None:
    """A task in `Error` rests already, and one that has ended has nothing to run."""
    for record in (
        told(pending(LINE), claimed(), *refused("pick")),
        told(pending(LINE), claimed(), *done("pick", "send")),
    ):
        request = park_request(record.task.epoch)
        assert apply(record, request, START) == Refused(RefusalReason.NOT_UNDER_WAY)


def test_event_of_a_parked_task_is_kept_and_nothing_runs() -> None:
    """Until it is unparked."""
    parked = told(handed_back(waiting()), park_request())
    told_then = told(parked, event_of())
    assert told_then.step(StepName("approve")).state is StepState.COMPLETED
    assert told_then.task == replace(parked.task)
    assert not starts_scheduler(parked, told_then)
