"""What must hold of each task record, and of each change of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis.stateful import RuleBasedStateMachine, invariant

from functions.pattern.decisions import awaited_until, in_question
from functions.pattern.definition import Workflow
from functions.pattern.epochs import FINAL, is_busy
from functions.pattern.events import (
    AnnouncementSent,
    Cancelled,
    DecisionDue,
    Eased,
    Event,
    Extended,
    GivenUp,
    MessageLost,
    OperatorEvent,
    Recovered,
    Resubmitted,
    StepCompleted,
    StepFailed,
    StepNotTaken,
    StepOutcome,
    StepStarted,
    SupervisorEvent,
)
from functions.pattern.identity import StepName, scheduler_id
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, EpochEnd, ProcessState, StepState
from functions.pattern.step_records import StepRecord
from functions.pattern.wait_events import ChildEnded, EventReceived, TurnedAway
from functions.pattern.waits import waits_end
from tests.fakes.clock import START
from tests.fakes.tasks import pending

MOST_RECOVERIES = 2
#: Seconds by which crowds extend a task, all in all.
LONGEST_EXTENSION = 60
#: After them, what was counted before counts on.
_NO_NEW_BEGINNINGS = frozenset({EpochEnd.RESUMED, EpochEnd.RELEASED, EpochEnd.PARKED, EpochEnd.UNPARKED})


class SoundRecord(RuleBasedStateMachine):
    """A record that is changed by rules of those who inherit, and stays sound."""

    workflow: Workflow
    verdict: SupervisorEvent | None

    def __init__(self) -> None:
        super().__init__()
        self.record = pending()
        self.now: datetime = START
        self.verdict: SupervisorEvent | None = None
        self.dispatched: list[StepName] = []
        self.once_only_begun = 0
        self.known_late = False

    @invariant()
    def due_is_never_too_late(self) -> None:
        """Never later than the earliest complete-by of a running step, unless an outcome is awaited then.

        What is decided waits for that outcome, whatever else is overdue. What is due by now is not too late.
        """
        task, awaited = self.record.task, awaited_until(self.record)
        if task.process_state is not ProcessState.PROCESSING:
            return
        for each in self.record.steps:
            under_way = each.state in {StepState.RUNNING, StepState.UNDOING} and each.epoch == task.epoch
            if under_way and not (each.shape.via.waits or each.was_not_taken):
                assert each.complete_by is not None
                outcome = awaited if each.complete_by <= self.now else None
                until = task.complete_by if task.decision is not None else outcome
                extended = START if task.extended is None else task.extended.until
                assert task.due_at <= max(each.complete_by, until or START, extended, self.now)

    @invariant()
    def extensions_are_bounded(self) -> None:
        """All of a task's together."""
        extended = self.record.task.extended
        assert extended is None or extended.seconds <= LONGEST_EXTENSION

    @invariant()
    def task_is_held_while_it_is_processing(self) -> None:
        """Held exactly while it is `Processing`, and finished exactly in a final state."""
        task = self.record.task
        assert (task.locked_by is not None) is (task.process_state is ProcessState.PROCESSING)
        assert (task.finished_at is not None) is (task.process_state in FINAL)

    @invariant()
    def parked_task_keeps_no_step_that_is_in_time(self) -> None:
        """One that was overdue is as in a recovery; what must not be repeated never is under way in it."""
        task = self.record.task
        if task.is_parked:
            assert task.process_state is ProcessState.PENDING
            assert not any(each.never_twice for each in self.record.steps if task.is_parked_by_operator)
            if is_busy(self.record):
                assert in_question(self.record) is None
                assert any(
                    each.complete_by is not None and each.complete_by <= self.now
                    for each in self.record.steps
                )

    @invariant()
    def ends_mean_what_they_say(self) -> None:
        """All completed: `Processed`, unless cancelled. `Compensated`: nothing is left to undo."""
        all_done = all(each.state is StepState.COMPLETED for each in self.record.steps)
        is_processed = self.record.task.process_state is ProcessState.PROCESSED
        turned_back = self.record.task.direction is Direction.UNDO
        assert all_done is is_processed or (all_done and (self.known_late or turned_back))
        if self.record.task.process_state is ProcessState.COMPENSATED:
            undoable = [each for each in self.record.steps if each.shape.undo and each.started_at is not None]
            assert all(each.state is StepState.UNDONE for each in undoable)

    @invariant()
    def failures_are_the_recoveries_since_the_last_new_beginning(self) -> None:
        """And they are bounded."""
        count = 0
        for closed in self.record.history:
            kept = count if closed.ended_by in _NO_NEW_BEGINNINGS else 0
            count = count + 1 if closed.ended_by is EpochEnd.RECOVERED else kept
        assert self.record.task.failure_count == count <= MOST_RECOVERIES

    @invariant()
    def history_has_every_epoch_that_is_over(self) -> None:
        """Once, in order."""
        epochs = [closed.epoch for closed in self.record.history]
        assert epochs == list(range(1, self.record.task.epoch))

    @invariant()
    def only_what_was_dispatched_is_undone(self) -> None:
        """And only when the task has turned back."""
        for each in self.record.steps:
            if each.state in {StepState.UNDOING, StepState.UNDONE}:
                assert each.started_at is not None
                assert each.shape.undo
                assert self.record.task.direction is Direction.UNDO

    @invariant()
    def order_of_dispatch_is_known(self) -> None:
        """Undo goes by it, so no two dispatches share their time."""
        known = [(each.started_at, each.name) for each in self.record.steps if each.started_at is not None]
        assert [name for _, name in sorted(known)] == self.dispatched

    @invariant()
    def only_a_task_that_waits_is_handed_back(self) -> None:
        """Due when its first wait ends, and never while anything is under way."""
        if self.record.task.is_handed_back:
            assert self.record.task.due_at == waits_end(self.record)
            assert not is_busy(self.record)

    @invariant()
    def event_is_the_result_of_its_step(self) -> None:
        """Of a step that has begun in time; nothing else is recorded of one that came too late."""
        approve = self.record.step(StepName("approve"))
        if approve.received is not None and approve.state is StepState.COMPLETED:
            assert (approve.result, approve.known_result) == (None, approve.received)


#: Seconds after its end in which a caller can cancel the tasks of these tests.
CANCEL_WITHIN = 30


def is_late(before: TaskRecord, now: TaskRecord, event: Event) -> bool:
    """Tell whether an outcome was recorded although the task did not go on with it."""
    if isinstance(event, StepNotTaken) and before.task.process_state in FINAL:
        return now.task == before.task
    return isinstance(event, StepOutcome) and event.start_id is not None and now.task == before.task


def _may_be_done(step: StepRecord, at: datetime) -> bool:
    """Tell whether a step that must not be repeated is running, and has time."""
    return step.never_twice and step.complete_by is not None and at < step.complete_by


def is_refused(step: StepRecord) -> bool:
    """Tell whether a step that must not be repeated is known to be not done."""
    return step.state is StepState.FAILED and not step.shape.idempotent


def check_change(before: TaskRecord, now: TaskRecord, event: Event, at: datetime) -> None:
    """Check what must hold of any one change."""
    if isinstance(event, EventReceived | TurnedAway | ChildEnded) and before.task.process_state in FINAL:
        assert now.task == before.task, "an event that comes late changes its step only"
    else:
        _check_change(before, now, event, at)
        if isinstance(event, Eased):
            _check_easing(before, now, event)


def _check_change(before: TaskRecord, now: TaskRecord, event: Event, at: datetime) -> None:
    if is_late(before, now, event):
        right = StepName("right")
        assert now == before.with_step(now.step(right)), "a late outcome changes its step only"
        return
    if isinstance(event, MessageLost):
        as_it_was = replace(now.task, updated_at=before.task.updated_at)
        assert replace(now, task=as_it_was, lost=before.lost) == before
        return
    assert not isinstance(event, AnnouncementSent), "nobody in here sends any"
    if isinstance(event, Cancelled):
        _check_cancelling(before, now, event, at)
    assert getattr(event, "epoch", before.task.epoch) == before.task.epoch
    assert before.task.epoch <= now.task.epoch <= before.task.epoch + 1
    assert now.history[: len(before.history)] == before.history
    if before.task.direction is Direction.UNDO:
        assert now.task.direction is Direction.UNDO
    if before.task.process_state in FINAL and now is not before:
        assert isinstance(event, OperatorEvent | Cancelled)
        assert now.task.epoch == before.task.epoch + 1
    _check_waiting(before, now, event, at)
    scheduler = getattr(event, "scheduler", None)
    if scheduler is not None and now is not before:
        task = before.task  # a claim may find that all is done, and end it at once
        assert scheduler == (task.locked_by or scheduler_id(task.order_id, task.epoch, task.run))
    for old, new in zip(before.steps, now.steps, strict=True):
        if old.state is StepState.COMPLETED:
            is_noted = isinstance(event, ChildEnded) and replace(new, noted=None) == old
            assert new is old or new.state is StepState.UNDOING or is_noted
        if old.state is StepState.UNDONE:
            assert new is old


def _check_cancelling(before: TaskRecord, now: TaskRecord, event: Cancelled, at: datetime) -> None:
    """Check that it leads to an undo, at once or soon, and that a caller comes in time."""
    decision = now.task.decision
    assert now.task.direction is Direction.UNDO or (decision is not None and decision.ended_by is not None)
    if not event.by_operator and now is not before:
        finished_at = before.task.finished_at
        assert before.task.process_state is not ProcessState.ERROR
        assert finished_at is None or at <= finished_at + timedelta(seconds=CANCEL_WITHIN)


def _check_easing(before: TaskRecord, now: TaskRecord, event: Eased) -> None:
    """Check that a crowd costs a task nothing but time, unless what is known of it ends it."""
    if now.task.epoch == before.task.epoch and now.task.extended != before.task.extended:
        assert isinstance(event, Extended)
        assert (now.steps, now.history) == (before.steps, before.history)
        assert now.task.locked_by == before.task.locked_by
    if now.task.direction is before.task.direction:
        assert now.task.failure_count == before.task.failure_count


def _check_waiting(before: TaskRecord, now: TaskRecord, event: Event, at: datetime) -> None:
    """Nothing ends, and nothing starts, round a step that must not be repeated."""
    if now.task.epoch != before.task.epoch or now.task.process_state in FINAL:
        assert not any(_may_be_done(each, at) for each in now.steps), "its outcome is awaited"
    if isinstance(event, Resubmitted) and before.task.direction is Direction.DO:
        assert not any(each.never_twice for each in before.steps), "an answer comes first"
    if before.task.decision is not None:
        assert not isinstance(event, StepStarted) or now is before, "it is decided how the epoch ends"


def check_time(before: TaskRecord, event: Event, now: datetime) -> None:
    """No outcome is taken late, and no task is taken from its Scheduler early."""
    if isinstance(event, StepCompleted | StepFailed):
        complete_by = before.step(event.step).complete_by
        assert complete_by is not None
        assert now <= complete_by
    if isinstance(event, Recovered | GivenUp | DecisionDue | Eased):
        assert now >= (before.task.complete_by or before.task.due_at)
