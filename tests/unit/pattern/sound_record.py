"""What holds of a task's record at any time, whoever has spoken."""

from __future__ import annotations

from datetime import datetime

from hypothesis.stateful import RuleBasedStateMachine, invariant

from functions.pattern.decisions import awaited_until, in_question
from functions.pattern.definition import Workflow
from functions.pattern.epochs import FINAL, is_busy
from functions.pattern.events import (
    SupervisorEvent,
)
from functions.pattern.identity import StepName
from functions.pattern.states import Direction, EpochEnd, ProcessState, StepState
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
