"""A parked task waits for its version or its operator, costs nothing, and counts no failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.pattern.announcements import announcements, starts_scheduler
from functions.pattern.events import AnnouncementSent, Event, Parked, Released
from functions.pattern.identity import Epoch, StepName, scheduler_id
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import AnnouncementKind, Direction, EpochEnd, ProcessState, StepState
from functions.pattern.supervision import judge
from functions.pattern.transitions import apply
from functions.store.keys import index_row
from tests.fakes.clock import START
from tests.fakes.interventions import (
    OPERATOR,
    cancellation,
    done,
    giving_up,
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

REASON = "version 1 of 'line' is not deployed here"
HELD = told(pending(LINE), claimed())


def parking(record: TaskRecord, reason: str = REASON) -> Parked:
    """Create the event with which a task's Scheduler parks it."""
    epoch = record.task.epoch
    return Parked(epoch=epoch, scheduler=scheduler_id(TASK, epoch), reason=reason)


def release(record: TaskRecord) -> Released:
    """Create the event with which the Supervisor has it go on."""
    return Released(epoch=record.task.epoch, start_by=after(300))


PARKED = told(HELD, parking(HELD))


def test_parked_task_waits_in_its_epoch() -> None:
    """Held by nobody, with the reason, under the version that it waits for; no epoch is opened by it."""
    task = PARKED.task
    assert (task.process_state, task.locked_by, task.complete_by) == (ProcessState.PENDING, None, None)
    assert (task.epoch, task.failure_count, task.last_error) == (FIRST, 0, REASON)
    assert PARKED.history == ()
    assert index_row(task) == f"!parked|line|1|{TASK}"
    assert not starts_scheduler(HELD, PARKED)
    # Parked task is never overdue.
    assert judge(PARKED, after(1_000_000), POLICY) is None


def test_supervisor_changes_the_reason_of_a_parked_task() -> None:
    """Once, with one alert that no queue drops as a repeat; its Scheduler, which lost it, changes nothing."""
    now_lacks = Parked(epoch=FIRST, scheduler=None, reason="the payload does not fit")
    [first] = announcements(HELD, PARKED)
    changed = told(PARKED, now_lacks, now=after(90))
    [second] = announcements(PARKED, changed)
    reasons = changed.task.parked_reasons
    assert changed.task == replace(
        PARKED.task, last_error=now_lacks.reason, parked_reasons=reasons, updated_at=after(90)
    )
    assert (first.reason, second.reason) == (REASON, now_lacks.reason)
    assert first.message_id != second.message_id
    assert apply(changed, now_lacks, after(99)) is changed
    assert apply(changed, parking(HELD), after(99)) is changed
    assert announcements(changed, told(changed, now_lacks)) == ()
    # Both alerts of a parked task are marked as sent.
    marked = told(PARKED, AnnouncementSent(announcement=first, sent_at=after(2)))
    changed = told(marked, Parked(epoch=FIRST, scheduler=None, reason="another"), now=after(90))
    [second] = announcements(marked, changed)
    sent = AnnouncementSent(announcement=second, sent_at=after(91))
    marked = told(changed, sent)
    assert [each.sent_at for each in marked.task.sent] == [after(2), after(91)]
    assert apply(marked, sent, after(99)) is marked


def test_parked_task_goes_on_in_the_next_epoch_uncounted() -> None:
    """As no recovery; whatever was counted before stays."""
    again = told(claim := told(recovered(HELD), claimed(SECOND)), parking(claim))
    released = told(again, release(again))
    assert (released.task.epoch, released.task.failure_count, released.task.is_parked) == (3, 1, False)
    assert released.history[-1].ended_by is EpochEnd.RELEASED
    assert starts_scheduler(again, released)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (claimed(), RefusalReason.PARKED),
        (recovery(), RefusalReason.PARKED),
        (giving_up(), RefusalReason.PARKED),
        (started("pick"), RefusalReason.NOT_HOLDER),
        (failed("pick"), RefusalReason.NOT_HOLDER),
        (undo_request(), RefusalReason.NOT_IN_ERROR),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parked_task_is_the_supervisors_alone(event: Event, reason: RefusalReason) -> None:
    """However long it waits: no Scheduler takes it up, and nothing counts against it."""
    assert apply(PARKED, event, after(1_000_000)) == Refused(reason)


def test_task_is_parked_by_its_scheduler_only() -> None:
    """Not before it is claimed, nor by one of an older epoch, nor once it is finished."""
    assert apply(pending(LINE), parking(HELD), START) == Refused(RefusalReason.NOT_HOLDER)
    assert apply(recovered(HELD), parking(HELD), START) == Refused(RefusalReason.STALE_EPOCH)
    ended = told(HELD, *refused("pick"))
    assert apply(ended, parking(HELD), START) == Refused(RefusalReason.FINISHED)
    assert apply(PARKED, parking(HELD), after(1)) is PARKED
    # The Supervisor parks a task that is not claimed.
    unclaimed = Parked(epoch=FIRST, scheduler=None, reason=REASON)
    assert told(pending(LINE), unclaimed, now=after(40)).task.is_parked
    assert apply(HELD, unclaimed, after(40)) == Refused(RefusalReason.NOT_HOLDER)
    # Only what is parked is released.
    assert apply(HELD, release(HELD), START) == Refused(RefusalReason.NOT_PARKED)
    released = told(PARKED, release(PARKED))
    assert apply(released, release(PARKED), START) == Refused(RefusalReason.STALE_EPOCH)


def test_task_is_not_parked_under_a_step() -> None:
    """Its outcome must find its Scheduler in place."""
    assert apply(told(HELD, started("pick")), parking(HELD), START) == Refused(RefusalReason.BUSY)
    told(HELD, *done("pick"), parking(HELD))
    # Overdue step keeps no task from being parked.
    running = told(HELD, started("pick", complete_by=20))
    assert apply(running, parking(HELD), after(19.9)) == Refused(RefusalReason.BUSY)
    parked = told(running, parking(HELD), now=after(20))
    assert apply(parked, completed("pick"), after(20)) == Refused(RefusalReason.NOT_HOLDER)
    again = told(parked, release(parked), claimed(SECOND), now=after(30))
    assert ready_steps(again) == ("pick",)


def test_task_of_which_something_is_in_question_is_not_parked() -> None:
    """An operator has to know of it."""
    flow = workflow(step("pick"), step("pay", idempotent=False))
    paying = told(pending(flow), claimed(), started("pick"), started("pay", complete_by=60))
    for at in (30, 90):
        assert apply(paying, parking(paying), after(at)) == Refused(RefusalReason.BUSY)
    # Task of which the end is decided is not parked.
    waiting = told(paying, failed("pick"))
    assert apply(waiting, parking(waiting), after(90)) == Refused(RefusalReason.DECIDED)


def test_parking_is_alerted_once() -> None:
    """Not again when it goes on and stops for the same reason; for another one it is."""
    with_reply = replace(HELD, order=replace(HELD.order, reply_to="notices-demo"))
    [alert] = announcements(with_reply, told(with_reply, parking(HELD)))
    assert (alert.kind, alert.reason, alert.state) == (AnnouncementKind.ALERT, REASON, ProcessState.PENDING)
    again = told(PARKED, release(PARKED), claimed(SECOND))
    assert announcements(again, told(again, parking(again))) == ()
    assert len(announcements(again, told(again, parking(again, "another reason")))) == 1
    assert announcements(PARKED, told(PARKED, release(PARKED))) == ()
    # Known reasons outlive a wait.
    begun = waiting()
    parked = told(begun, parking(begun))
    resting = handed_back(told(parked, release(parked), claimed(SECOND)))
    next_run = scheduler_id(TASK, SECOND, 1)
    taken_up = told(resting, event_of(), replace(claimed(SECOND), scheduler=next_run))
    again = told(taken_up, replace(parking(taken_up), scheduler=next_run))
    assert again.task.is_parked
    assert announcements(taken_up, again) == ()


def test_each_reason_is_alerted_once_while_hosts_that_lack_this_and_that_take_turns() -> None:
    """Which of them sweeps is chance; after something else than a deployment, it is news again."""
    record, alerts = HELD, list[str | None]()
    for turn in range(40):
        reason = f"lacks {turn % 2}" if turn < 20 else f"lacks {turn}"
        parked = told(record, Parked(epoch=FIRST, scheduler=record.task.locked_by, reason=reason))
        alerts += [alert.reason for alert in announcements(record, parked)]
        record = parked
    assert alerts == ["lacks 0", "lacks 1", *(f"lacks {turn}" for turn in range(20, 40))]
    assert len(record.task.parked_reasons) == 10
    assert told(record, release(record)).task.parked_reasons == record.task.parked_reasons
    assert told(record, cancellation()).task.parked_reasons == ()


THIRD = Epoch(3)
RUNNING = told(pending(LINE), claimed(), started("pick"))
PARKED_BY_OPERATOR = told(RUNNING, park_request())
ONCE = workflow(step("pick"), step("pay", idempotent=False))
UNDONE = workflow(step("open", undo=True), step("close", "open"))


def test_it_is_held_by_nobody_and_who_parked_it_and_why_is_on_record() -> None:
    """On the epoch that ended; no Scheduler is asked for the next, and nobody is alerted."""
    task = PARKED_BY_OPERATOR.task
    assert (task.process_state, task.locked_by, task.complete_by) == (ProcessState.PENDING, None, None)
    assert (task.epoch, task.last_error, task.is_parked) == (SECOND, "the site is closed", True)
    [closed] = PARKED_BY_OPERATOR.history
    assert (closed.ended_by, closed.who, closed.reason) == (EpochEnd.PARKED, OPERATOR, "the site is closed")
    assert index_row(task) == f"!parked|~operator|{TASK}"
    assert not starts_scheduler(RUNNING, PARKED_BY_OPERATOR)
    assert announcements(RUNNING, PARKED_BY_OPERATOR) == ()
    # No sweep judges it or changes its reason.
    assert judge(PARKED_BY_OPERATOR, after(1_000_000), POLICY) is None
    lacking = Parked(epoch=SECOND, scheduler=None, reason="not deployed here")
    assert apply(PARKED_BY_OPERATOR, lacking, after(90)) is PARKED_BY_OPERATOR


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
    assert apply(PARKED_BY_OPERATOR, event, after(1_000_000)) == Refused(reason)


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
    # An operator's cancel resumes a parked undo.
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
