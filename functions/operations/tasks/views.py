"""What operators are shown of a task; times are UTC. Payloads and results are not in it: `contents.py`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationInfo, computed_field, field_validator

from functions.operations.tasks.prospects import Prospects, prospects
from functions.pattern.children import children_of
from functions.pattern.decisions import awaited_until
from functions.pattern.identity import FIRST_EPOCH, StepName
from functions.pattern.messages import requests_queue
from functions.pattern.records import LostMessage, Order, SentAnnouncement, TaskRecord
from functions.pattern.rejected import RejectedMessage
from functions.pattern.states import Direction, EpochEnd, ProcessState, Remedy, Way
from functions.web.views import StepView, read_from


class TaskLine(BaseModel):
    """One task in a list, read from its record. It is due only as long as it is under way."""

    model_config = ConfigDict(from_attributes=True, validate_by_name=True)

    id: str = read_from("task", "order_id")
    workflow: str = read_from("order", "workflow")
    workflow_version: int = read_from("order", "workflow_version")
    state: ProcessState = read_from("task", "process_state")
    direction: Direction = read_from("task", "direction")
    epoch: int = read_from("task", "epoch")
    failure_count: int = read_from("task", "failure_count")
    locked_by: str | None = read_from("task", "locked_by")
    submitted_at: datetime = read_from("order", "submitted_at")
    updated_at: datetime = read_from("task", "updated_at")
    finished_at: datetime | None = read_from("task", "finished_at")
    parked: bool = read_from("task", "is_parked")
    parked_by_operator: bool = read_from("task", "is_parked_by_operator")
    due_at: datetime | None = read_from("task", "due_at")
    last_error: str | None = read_from("task", "last_error")

    @field_validator("due_at")
    @classmethod
    def _only_while_under_way(cls, due_at: datetime | None, line: ValidationInfo) -> datetime | None:
        return due_at if line.data["finished_at"] is None and not line.data["parked"] else None


class UnreadableRow(BaseModel):
    """A row that can't be read, by its key in the table, and why."""

    model_config = ConfigDict(from_attributes=True)

    key: str
    reason: str


class TaskPage(BaseModel):
    """Some tasks; `cursor` asks for the next page, null when there is none.

    The list was looked through from its beginning to the time `looked_to`, null: to its end. Times are those
    by which it goes. `more` says that there are others to which no cursor leads: a longer prefix, or another
    age, finds them.
    `unreadable` are rows that would belong to the page and are damaged: they hide no others.
    """

    tasks: list[TaskLine]
    cursor: str | None
    looked_to: datetime | None
    more: bool
    unreadable: list[UnreadableRow]


class StepDetails(StepView):
    """How far one step is, with what operators need to judge it; `epoch` dispatched it last.

    While it runs, `attempts` calls of it have failed, the last of them with `error`. An event is told by
    somebody of its `role`: by whom, and why, if an operator did.
    """

    agent: str = read_from("shape", "agent")
    undo: bool = read_from("shape", "undo")
    idempotent: bool = read_from("shape", "idempotent")
    via: Way = read_from("shape", "via")
    role: str | None = read_from("shape", "role")
    told_by: str | None
    told_why: str | None
    epoch: int | None
    attempts: int | None
    noted: str | None

    @computed_field  # type: ignore[prop-decorator] # of pydantic
    @property
    def queue(self) -> str | None:
        """Name the queue on which its requests wait; null for a step that is not behind one."""
        return requests_queue(self.agent) if self.via is Way.QUEUE else None


class PastStepView(StepView):
    """How one step stood when an epoch ended; `epoch` had dispatched it last."""

    epoch: int | None


class TransitionView(BaseModel):
    """One entry of a task's history: what happened, who did it and why, and how the epoch stood then.

    But for the submission, each is an epoch that is over.
    """

    model_config = ConfigDict(from_attributes=True, validate_by_name=True)

    event: str = read_from("ended_by")
    at: datetime = read_from("ended_at")
    epoch: int
    who: str
    reason: str | None
    last_error: str | None
    state: ProcessState = read_from("process_state")
    direction: Direction
    locked_by: str | None
    steps: list[PastStepView]

    @classmethod
    def submitted(cls, order: Order) -> TransitionView:
        """Show how a task began."""
        return cls(
            event="submitted",
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


class DecisionView(BaseModel):
    """How the epoch is to end, who decided that, and why: by an undo (`ended_by`), or in `Error` (null).

    It is carried out when the outcome of what must not be repeated is known, or at `until`.
    """

    ended_by: EpochEnd | None
    who: str
    reason: str
    until: datetime | None

    @classmethod
    def of(cls, record: TaskRecord) -> DecisionView | None:
        """Show what waits; None when nothing does."""
        decision = record.task.decision
        if decision is None:
            return None
        return cls(
            ended_by=decision.ended_by,
            who=decision.who,
            reason=decision.reason,
            until=awaited_until(record),
        )


class TaskDetails(TaskLine):
    """One task as it stands in its current epoch."""

    birth: str = read_from("order", "birth")
    submitter: str = read_from("order", "submitter")
    reply_to: str | None = read_from("order", "reply_to")
    correlation_id: str | None = read_from("order", "correlation_id")
    on_failure: Remedy = read_from("order", "shape", "on_failure")
    on_exhausted: Remedy = read_from("order", "shape", "on_exhausted")
    complete_by: datetime | None = read_from("task", "complete_by")
    not_before: datetime | None = read_from("task", "not_before")
    steps: list[StepDetails]


class ParentView(BaseModel):
    """The task of which another is a step, and which step."""

    model_config = ConfigDict(from_attributes=True)

    task: str
    step: str


class TaskView(TaskDetails):
    """One task whole: as it stands in its current epoch, how it came there, and what can be done about it.

    `notices` are those that were sent. `needs` names the steps that each step needs, as they are defined:
    a step's items are not told apart there. `children` are the tasks that are steps of it, and were begun; it
    may be one of its `parent`.
    """

    parent: ParentView | None
    children: dict[StepName, str]
    needs: dict[StepName, list[StepName]]
    decision: DecisionView | None
    history: list[TransitionView]
    notices: list[SentAnnouncement]
    lost_messages: list[LostMessage]
    rejected: Sequence[RejectedMessage]
    prospects: Prospects | None
    trace_id: str | None
    trace_url: str | None

    @classmethod
    def whole(
        cls,
        record: TaskRecord,
        rejected: Sequence[RejectedMessage],
        trace_url_template: str | None,
        now: datetime,
    ) -> TaskView:
        """Show a task's record, and messages about it; its history begins with its submission."""
        order = record.order
        trace_id = trace_url = None
        if order.traceparent is not None:
            trace_id = order.traceparent.split("-")[1]  # 32 hexadecimal digits (W3C Trace Context §3.2)
            trace_url = trace_url_template and trace_url_template.replace("{trace_id}", trace_id)
        return cls(
            **dict(TaskDetails.model_validate(record)),
            parent=order.parent and ParentView.model_validate(order.parent),
            children={step: str(record.child(step)) for step in children_of(record)},
            needs={step.name: sorted(step.needs) for step in order.shape.steps},
            decision=DecisionView.of(record),
            history=[TransitionView.submitted(order), *map(TransitionView.model_validate, record.history)],
            notices=sorted(record.task.sent, key=lambda notice: notice.sent_at),
            lost_messages=list(record.lost),
            rejected=rejected,
            prospects=prospects(record, now),
            trace_id=trace_id,
            trace_url=trace_url,
        )


class ActionTaken(BaseModel):
    """An operator's action is recorded; the task goes on in `epoch`."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [{"id": "order-1", "epoch": 2, "state": "Pending", "direction": "do"}]
        },
    )

    id: str = read_from("task", "order_id")
    epoch: int = read_from("task", "epoch")
    state: ProcessState = read_from("task", "process_state")
    direction: Direction = read_from("task", "direction")
