"""Whatever the order in which two Schedulers of two epochs speak, the record stays sound."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from functions.pattern.errors import IllegalTransitionError
from functions.pattern.events import Refused, SchedulerEvent
from functions.pattern.identity import Epoch, SchedulerId
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState, StepState
from functions.pattern.transitions import apply
from tests.fakes.clock import START
from tests.fakes.tasks import after, claimed, completed, failed, pending, recovered, started

EPOCHS = st.sampled_from([Epoch(1), Epoch(2)])
STEPS = st.sampled_from(["open", "left", "right", "close"])
SECONDS = st.integers(0, 60)
STRANGER = SchedulerId("somebody-else")
FINAL = {ProcessState.PROCESSED, ProcessState.ERROR}


class TwoSchedulers(RuleBasedStateMachine):
    """Two Schedulers, one for each epoch, and a stranger that claims to be either of them."""

    def __init__(self) -> None:
        super().__init__()
        self.record = pending()
        self.now: datetime = START

    @initialize(seconds=SECONDS)
    def picked_up(self, seconds: int) -> None:
        """Let the first Scheduler take the task, at once or late."""
        self._tell(claimed(start_by=seconds), stranger=False)

    @rule(seconds=st.integers(1, 10))
    def time_passes(self, seconds: int) -> None:
        """Complete-by times may pass."""
        self.now = after((self.now - START).total_seconds() + seconds)

    @rule(epoch=EPOCHS, seconds=SECONDS, stranger=st.booleans())
    def claim(self, epoch: Epoch, seconds: int, stranger: bool) -> None:  # noqa: FBT001 - Hypothesis draws it
        """Let a Scheduler take the task, or try to."""
        self._tell(claimed(epoch, start_by=seconds), stranger=stranger)

    @rule(epoch=EPOCHS, step=STEPS, seconds=SECONDS, stranger=st.booleans())
    def start(self, epoch: Epoch, step: str, seconds: int, stranger: bool) -> None:  # noqa: FBT001 - as above
        """Let an Agent start a step."""
        self._tell(started(step, epoch, complete_by=seconds), stranger=stranger)

    @rule(epoch=EPOCHS, step=STEPS, result=st.binary(max_size=2), stranger=st.booleans())
    def complete(self, epoch: Epoch, step: str, result: bytes, stranger: bool) -> None:  # noqa: FBT001 - as above
        """Let an Agent tell of a success."""
        self._tell(completed(step, epoch, result=result), stranger=stranger)

    @rule(epoch=EPOCHS, step=STEPS)
    def fail(self, epoch: Epoch, step: str) -> None:
        """Let an Agent tell of a refusal."""
        self._tell(failed(step, epoch), stranger=False)

    @rule()
    def recover(self) -> None:
        """Let the Supervisor give the task to the next epoch, once."""
        if self.record.task.process_state not in FINAL and self.record.task.epoch == 1:
            self.record = recovered(self.record)

    @invariant()
    def due_is_never_too_late(self) -> None:
        """Never later than the earliest complete-by of a running step."""
        for step in self.record.steps:
            if step.state is StepState.RUNNING and self.record.task.process_state is ProcessState.PROCESSING:
                assert step.complete_by is not None
                assert self.record.task.due_at <= step.complete_by

    @invariant()
    def task_is_held_while_it_is_processing(self) -> None:
        """Held exactly while it is `Processing`, and finished exactly in a final state."""
        task = self.record.task
        assert (task.locked_by is not None) is (task.process_state is ProcessState.PROCESSING)
        assert (task.finished_at is not None) is (task.process_state in FINAL)

    @invariant()
    def processed_means_every_step_completed(self) -> None:
        """And the other way round."""
        all_done = all(step.state is StepState.COMPLETED for step in self.record.steps)
        assert all_done is (self.record.task.process_state is ProcessState.PROCESSED)

    def _tell(self, event: SchedulerEvent, *, stranger: bool) -> None:
        event = replace(event, scheduler=STRANGER) if stranger else event
        before = self.record
        with suppress(IllegalTransitionError):
            outcome = apply(before, event, self.now)
            if not isinstance(outcome, Refused):
                self.record = outcome
                _check_step(before, outcome, event)


def _check_step(before: TaskRecord, now: TaskRecord, event: SchedulerEvent) -> None:
    """Check what must hold of any one change."""
    assert now.task.epoch == before.task.epoch == event.epoch
    if before.task.process_state in FINAL:
        assert now is before
    if before.task.locked_by is not None:
        assert now is before or event.scheduler == before.task.locked_by
    for old, new in zip(before.steps, now.steps, strict=True):
        if old.state is StepState.COMPLETED:
            assert new is old


TestTwoSchedulers = TwoSchedulers.TestCase
