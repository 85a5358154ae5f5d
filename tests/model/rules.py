"""What must hold of each change of a record, of each call, and of each state."""

from __future__ import annotations

from functions.pattern.announcements import announcements, starts_scheduler
from functions.pattern.epochs import FINAL, UNDER_WAY
from functions.pattern.events import Event
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import AnnouncementKind, Direction, EpochEnd, ProcessState
from tests.fakes.clock import START
from tests.model.state import Call, Effect
from tests.unit.pattern.invariants import check_change, check_time, is_late

#: How often a task is recovered in one direction: the policy's threshold, and its extended waits.
_MOST_RECOVERIES = 2


def check(before: TaskRecord, after: TaskRecord, event: Event) -> None:
    """Check one change: epochs and steps (I4, I5), its time (I8), counts (I9), alerts (I12), who goes on."""
    check_change(before, after, event, START)
    if not is_late(before, after, event):
        check_time(before, event, START)
    count = before.task.failure_count
    for closed in after.history[len(before.history) :]:
        count = count + 1 if closed.ended_by is EpochEnd.RECOVERED else 0
        assert starts_scheduler(before, after) or after.task.process_state in FINAL, "nobody is asked for"
    assert after.task.failure_count == count <= _MOST_RECOVERIES, "only recoveries count"
    if ProcessState.ERROR is after.task.process_state is not before.task.process_state:
        told = {each.kind for each in announcements(before, after)}
        assert AnnouncementKind.ALERT in told, "it ends in Error, and nobody is alerted"


def check_call(record: TaskRecord, call: Call) -> None:
    """Check a call that arrives (I6): it is on record, and after what it needs, or undone before that."""
    step = record.step(StepName(call.step))
    assert step.started_at is not None, f"{step.name} is called, and not on record"
    if call.is_undo:
        assert record.task.direction is Direction.UNDO, f"{step.name} is undone, and its task is not"
    if call.start_id != step.start_id or step.state is not UNDER_WAY[record.task.direction]:
        return
    for other in record.steps:
        if call.is_undo and step.name in other.shape.needs:
            assert not other.needs_undo, f"{step.name} is undone before {other.name}"
        if not call.is_undo and other.name in step.shape.needs:
            assert other.settled, f"{step.name} is called before {other.name}"


def check_effects(record: TaskRecord, effects: tuple[Effect, ...]) -> None:
    """Check that each step was done once at most (I2), and that the ends are what they say (I3)."""
    for step, effect in zip(record.steps, effects, strict=True):
        assert effect.done <= 1, f"{step.name} was done twice"
        if record.task.process_state is ProcessState.PROCESSED:
            assert effect == Effect(done=1), f"Processed, and {step.name} is {effect}"
        if record.task.process_state is ProcessState.COMPENSATED and step.shape.undo:
            assert not effect.done or effect.is_undone, f"Compensated, and {step.name} stands"
