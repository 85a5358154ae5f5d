"""Steps that are tasks of other workflows: what the end of such a child is for its parent."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from functions.pattern.decisions import decide, stopped_by
from functions.pattern.epochs import FINAL, awaited, compensated
from functions.pattern.identity import FIRST_EPOCH, Birth, Parent, StepName
from functions.pattern.records import Order, Task, TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.shape import Shape
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, StepState, Way
from functions.pattern.step_records import StepRecord
from functions.pattern.texts import MAX_ERROR_BYTES, bounded
from functions.pattern.wait_events import ChildEnded
from functions.pattern.waits import completed, failed, gone_on, over

_NO_ANSWER = b"{}"
#: Of a child that no version of its workflow has taken.
_NO_VERSION = 0
#: Why a child is undone, as its own record says.
UNDONE_WITH_ITS_PARENT = "the task of which it is a step is undone"
NEVER_BEGUN = "undone before it began"

_DONE_AFTER_ALL = "gone on without, but its task was done after all, and stands"
_DONE_BESIDES = "its result is an operator's, but its task was done, too, and stands"
_UNDONE_SINCE = "its task is undone by now"


def end_of(child: TaskRecord, start_by: datetime) -> ChildEnded | None:
    """Say what its parent has to hear of a child; None while it has not ended.

    Only an operator can say what the result is of one whose answer could not be made.
    """
    parent, task = child.order.parent, child.task
    if parent is None:
        return None
    if task.process_state is ProcessState.COMPENSATED:
        error = task.last_error or "its task was undone"
        return ChildEnded(
            birth=parent.birth, step=parent.step, state=StepState.FAILED, start_by=start_by, error=error
        )
    if task.process_state is not ProcessState.PROCESSED:
        return None
    state = StepState.UNRECORDED if task.lacks_answer else StepState.COMPLETED
    return ChildEnded(
        birth=parent.birth,
        step=parent.step,
        state=state,
        start_by=start_by,
        result=None if task.lacks_answer else task.answer or _NO_ANSWER,
        error=task.last_error,
    )


def child_ended(record: TaskRecord, event: ChildEnded, now: datetime) -> TaskRecord | Refused:
    """End the step that is a task, in the direction in which its parent goes."""
    if record.order.birth != event.birth:
        return Refused(RefusalReason.NO_SUCH_TASK)
    step = next((each for each in record.steps if each.name == event.step), None)
    if step is None or step.shape.via is not Way.WORKFLOW:
        return Refused(RefusalReason.NO_SUCH_STEP)
    if record.task.direction is Direction.UNDO:
        return _undone(record, step, event, now)
    if step.state is StepState.RUNNING:
        return _done(record.with_step(_ended(step, event, now)), event, now)
    note = _note(record, step, event)
    return record if note in {None, step.noted} else record.with_step(replace(step, noted=note))


def _note(record: TaskRecord, step: StepRecord, event: ChildEnded) -> str | None:
    """Say what operators have to hear of a step that has ended already; None for nothing."""
    is_given = _is_given(record, step)
    if event.state is not StepState.FAILED:
        return _DONE_AFTER_ALL if step.given_up else _DONE_BESIDES if is_given else None
    has_counted = step.state in {StepState.COMPLETED, StepState.UNRECORDED} and not is_given
    is_done = has_counted or step.noted in {_DONE_AFTER_ALL, _DONE_BESIDES}
    return _UNDONE_SINCE if is_done else None


def _done(record: TaskRecord, event: ChildEnded, now: datetime) -> TaskRecord:
    """Go on with what the child's end leads to; without its result, an operator has to give it."""
    if event.state is StepState.UNRECORDED and record.task.process_state not in FINAL:
        question = stopped_by(record, record.step(event.step), None)
        return decide(record, question, now, event.start_by)
    return gone_on(record, now, event.start_by)


def _ended(step: StepRecord, event: ChildEnded, now: datetime) -> StepRecord:
    if event.result is not None:
        return completed(step, event.result, now)
    if event.state is StepState.FAILED:
        return failed(step, event.error or "", now)
    error = bounded(f"it was done, but {event.error}", MAX_ERROR_BYTES)
    return replace(step, state=StepState.UNRECORDED, finished_at=now, error=error)


def _undone(record: TaskRecord, step: StepRecord, event: ChildEnded, now: datetime) -> TaskRecord:
    """Go on with an undo; in `Error`, an operator's next try hears of it."""
    is_over = step.state is not StepState.UNDOING or record.task.process_state in FINAL
    if is_over or event.state is not StepState.FAILED:
        return record
    undone = record.with_step(replace(step, state=StepState.UNDONE, finished_at=now, error=None))
    if any(each.needs_undo for each in undone.steps):
        return gone_on(undone, now, event.start_by)
    return compensated(undone, now)


def children_to_reach(record: TaskRecord) -> tuple[StepName, ...]:
    """Name the steps whose children may not have been admitted yet, or not cancelled."""
    if record.task.process_state is not ProcessState.PROCESSING:
        return ()
    return tuple(
        step.name for step in awaited(record) if step.shape.via is Way.WORKFLOW and not step.handed_over
    )


def children_over(record: TaskRecord, now: datetime) -> tuple[StepName, ...]:
    """Name the steps whose children's time is over: it counts only for what has not ended by then."""
    return tuple(name for name in over(record, now) if record.step(name).shape.via is Way.WORKFLOW)


def parent_of(record: TaskRecord, step: StepName) -> Parent:
    """Say of which step of which task a child is."""
    return Parent(task=record.order.task, birth=record.order.birth, step=step)


def tombstone(record: TaskRecord, step: StepName, now: datetime, birth: Birth) -> TaskRecord:
    """Make the record of a child that is undone before it was admitted: whoever would admit it, finds this.

    It needs no definition, and has none.
    """
    parent, child = record.order, record.child(step)
    order = Order(
        task=child,
        birth=birth,
        workflow=record.step(step).shape.workflow or "",
        workflow_version=_NO_VERSION,
        shape=Shape(steps=(), on_failure=Remedy.HOLD, on_exhausted=Remedy.HOLD),
        payload=b"{}",
        digest="",
        submitter=parent.submitter,
        submitted_at=now,
        correlation_id=parent.correlation_id,
        parent=parent_of(record, step),
    )
    task = Task(
        order_id=child,
        locked_by=None,
        complete_by=None,
        process_state=ProcessState.COMPENSATED,
        failure_count=0,
        epoch=FIRST_EPOCH,
        direction=Direction.UNDO,
        due_at=now,
        updated_at=now,
        finished_at=now,
        last_error=NEVER_BEGUN,
    )
    return TaskRecord(order=order, task=task, steps=())


def is_gone(record: TaskRecord, step: StepName) -> bool:
    """Tell whether a child that is not there was processed once."""
    return record.step(step).result is not None and not _is_given(record, record.step(step))


def _is_given(record: TaskRecord, step: StepRecord) -> bool:
    """Tell whether a step's result is an operator's, in the place of its child's."""
    given = (each for each in record.history if each.ended_by is EpochEnd.RESULT_GIVEN)
    return any(
        past.name == step.name and past.state is not StepState.COMPLETED
        for each in given
        if each.ended_at == step.finished_at
        for past in each.steps
    )


def children_of(record: TaskRecord) -> tuple[StepName, ...]:
    """Name the steps that are tasks, and were begun."""
    begun = (step for step in record.steps if step.started_at is not None)
    return tuple(step.name for step in begun if step.shape.via is Way.WORKFLOW)
