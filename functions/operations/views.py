"""What operators are shown of a task; times are UTC. Payloads and results, the caller's, are not."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from functions.operations.notices import NoticeView, notices
from functions.operations.prospects import Prospects, prospects
from functions.operations.traces import Traces, trace_id
from functions.pattern.definition import Workflow
from functions.pattern.identity import FIRST_EPOCH, StepName
from functions.pattern.records import EpochRecord, Order, StepRecord, TaskRecord
from functions.pattern.states import Direction, ProcessState, Remedy, StepState

#: What began a task's history, beside the ways in which epochs end.
_SUBMITTED = "submitted"


class TaskLine(BaseModel):
    """One task in a list."""

    id: str
    workflow: str
    state: ProcessState
    direction: Direction
    epoch: int
    failure_count: int
    locked_by: str | None
    submitted_at: datetime
    updated_at: datetime
    due_at: datetime | None
    finished_at: datetime | None
    last_error: str | None

    @classmethod
    def of(cls, record: TaskRecord) -> TaskLine:
        """Show a task. It is due only as long as it is not finished."""
        task = record.task
        return cls(
            id=task.order_id,
            workflow=record.order.workflow,
            state=task.process_state,
            direction=task.direction,
            epoch=task.epoch,
            failure_count=task.failure_count,
            locked_by=task.locked_by,
            submitted_at=record.order.submitted_at,
            updated_at=task.updated_at,
            due_at=task.due_at if task.finished_at is None else None,
            finished_at=task.finished_at,
            last_error=task.last_error,
        )


class TaskPage(BaseModel):
    """Some tasks; `cursor` asks for the next page, null when there is none.

    `more` says that there are others to which no cursor leads: a longer prefix, or another age, finds them.
    """

    tasks: list[TaskLine]
    cursor: str | None
    more: bool


class StepView(BaseModel):
    """How far one step is; `epoch` is the one that dispatched it last."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    state: StepState
    undo: bool
    idempotent: bool
    epoch: int | None
    complete_by: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None


class TransitionView(BaseModel):
    """One entry of a task's history: what happened, who did it and why, and how the epoch stood then."""

    event: str
    at: datetime
    epoch: int
    who: str
    reason: str | None
    last_error: str | None
    state: ProcessState
    direction: Direction
    locked_by: str | None
    steps: list[StepView]

    @classmethod
    def submitted(cls, order: Order) -> TransitionView:
        """Show how a task began."""
        return cls(
            event=_SUBMITTED,
            at=order.submitted_at,
            epoch=FIRST_EPOCH,
            who=order.submitter,
            reason=None,
            last_error=None,
            state=ProcessState.PENDING,
            direction=Direction.DO,
            locked_by=None,
            steps=[],
        )

    @classmethod
    def closed(cls, epoch: EpochRecord) -> TransitionView:
        """Show how an epoch ended."""
        return cls(
            event=epoch.ended_by,
            at=epoch.ended_at,
            epoch=epoch.epoch,
            who=epoch.who,
            reason=epoch.reason,
            last_error=epoch.last_error,
            state=epoch.process_state,
            direction=epoch.direction,
            locked_by=epoch.locked_by,
            steps=_steps(epoch.steps),
        )


class LostMessageView(BaseModel):
    """A message about the task that died on its queue."""

    model_config = ConfigDict(from_attributes=True)

    queue: str
    message_id: str
    reason: str
    at: datetime


class TaskView(TaskLine):
    """One task whole: as it stands in its current epoch, how it came there, and what can be done about it.

    `needs` names the steps that each step needs, and is null when the workflow is not registered any more.
    """

    workflow_version: int
    submitter: str
    reply_to: str | None
    correlation_id: str | None
    on_failure: Remedy
    on_exhausted: Remedy
    complete_by: datetime | None
    not_before: datetime | None
    steps: list[StepView]
    needs: dict[StepName, list[StepName]] | None
    history: list[TransitionView]
    notices: list[NoticeView]
    lost_messages: list[LostMessageView]
    prospects: Prospects | None
    trace_id: str | None
    trace_url: str | None

    @classmethod
    def whole(cls, record: TaskRecord, workflow: Workflow | None, traces: Traces, now: datetime) -> TaskView:
        """Show a task's record; its history begins with its submission."""
        order = record.order
        return cls(
            **TaskLine.of(record).model_dump(),
            workflow_version=order.workflow_version,
            submitter=order.submitter,
            reply_to=order.reply_to,
            correlation_id=order.correlation_id,
            on_failure=order.on_failure,
            on_exhausted=order.on_exhausted,
            complete_by=record.task.complete_by,
            not_before=record.task.not_before,
            steps=_steps(record.steps),
            needs=None if workflow is None else {step.name: sorted(step.needs) for step in workflow.steps},
            history=[TransitionView.submitted(order), *map(TransitionView.closed, record.history)],
            notices=notices(record),
            lost_messages=[LostMessageView.model_validate(lost) for lost in record.lost],
            prospects=prospects(record, now),
            trace_id=trace_id(order.traceparent),
            trace_url=traces.url(order.traceparent),
        )


class ActionTaken(BaseModel):
    """An operator's action is recorded; the task goes on in `epoch`."""

    id: str
    epoch: int
    state: ProcessState
    direction: Direction


def _steps(steps: tuple[StepRecord, ...]) -> list[StepView]:
    return [StepView.model_validate(step) for step in steps]
