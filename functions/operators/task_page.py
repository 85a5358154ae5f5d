"""The page of one task: its steps, its history, and the actions that it accepts. Times are UTC.

Payload, requests and results have routes of their own, and are shown without secret fields. Start ids are in
no answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json

from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.derive import StepState, derive, questions, step_state
from functions.core.record import (
    Attempt,
    ClosedEpoch,
    Decision,
    FailurePolicy,
    OperationState,
    StepSpec,
    StepType,
    TaskRecord,
)
from functions.http.redaction import (
    NotShownError,
    has_secrets,
    printable_text,
    redacted,
    workflow_has_secrets,
)
from functions.messaging.rejected_messages import RejectedMessage
from functions.operators.task_actions import ActionPreview, pending_until
from functions.operators.task_list import CorruptRow, TaskLine
from functions.storage.index_pages import EntryPage, read_entries
from functions.storage.record_rows import closed_epoch
from functions.storage.row_keys import epochs_of, shard_of
from functions.storage.task_storage import TaskStorage


class OrderView(BaseModel):
    """The order of a task, without its payload and its steps."""

    model_config = ConfigDict(from_attributes=True)

    run_id: str
    submitter: str
    reply_to: str | None
    correlation_id: str | None
    on_failure: FailurePolicy
    on_exhausted: FailurePolicy
    parent: str | None
    parent_step: str | None


class SpecView(BaseModel):
    """The snapshot of a step's definition; `item` is the number of an item of a for-each step."""

    model_config = ConfigDict(from_attributes=True)

    step: str
    item: int | None
    type: StepType
    needs: Annotated[list[str], BeforeValidator(sorted)]
    agent: str
    workflow: str
    role: str
    complete_within: float
    idempotent: bool
    undo: bool
    can_find: bool


class OperationView(BaseModel):
    """The do or the undo of a step. `number` is the place of its last start among all starts of the task.

    A deferred operation waits behind a `gate`, and counts as overdue at `defer_by`. Until `find_by` the Agent
    looks up whether the effect took place. `attempts` are the newest 20.
    """

    model_config = ConfigDict(from_attributes=True)

    state: OperationState
    number: int | None
    run: int | None
    started_at: datetime | None
    complete_by: datetime | None
    finished_at: datetime | None
    error: str | None
    gate: str | None
    deferred_since: datetime | None
    defer_by: datetime | None
    find_by: datetime | None
    attempts: list[Attempt]


class StepDetails(BaseModel):
    """One step, or one item of a for-each step. `child` is the task of a workflow step that has started.

    `rebuilt` counts its earlier requests. `event_by` is the sender of its event.
    """

    name: str
    state: StepState
    spec: SpecView
    do: OperationView
    undo: OperationView
    child: str | None
    rebuilt: int
    event_by: str | None
    note: str | None

    @classmethod
    def of(cls, record: TaskRecord, spec: StepSpec) -> StepDetails:
        """Return the details of a step, also of one that has never started."""
        step = record.step(spec.name)
        has_child = spec.type is StepType.WORKFLOW and bool(step.dispatched)
        return cls(
            name=spec.name,
            state=step_state(record, spec),
            spec=SpecView.model_validate(spec),
            do=OperationView.model_validate(step.do),
            undo=OperationView.model_validate(step.undo),
            child=record.order.child(spec.name, len(step.dispatched) - 1) if has_child else None,
            rebuilt=len(step.earlier_dos),
            event_by=step.event_by,
            note=step.note,
        )


class TaskView(TaskLine):
    """One task: its steps, its history after the submission, and the actions that it accepts.

    `gates` are the times since which steps wait behind gates. A `decision` is carried out when all pending
    outcomes are known, or at `decision_at`. A decision that `is_derived` ends together with the state that
    causes it. `question` needs the answer of an operator. `corrupt` are rows of the history that cannot be
    decoded. `rejected` are messages about the task that were not accepted.
    """

    order: OrderView
    complete_by: datetime | None
    resume_at: datetime | None
    expires_at: datetime | None
    steps: list[StepDetails]
    gates: dict[str, datetime]
    decision: Decision | None
    decision_at: datetime | None
    question: str | None
    actions: list[ActionPreview]
    history: list[ClosedEpoch]
    corrupt: list[CorruptRow]
    rejected: list[RejectedMessage]
    trace_id: str | None
    trace_url: str | None

    @classmethod
    def of_record(
        cls,
        record: TaskRecord,
        epochs: EntryPage[ClosedEpoch],
        *,
        actions: Sequence[ActionPreview],
        rejected: Sequence[RejectedMessage],
        trace_url_template: str | None,
    ) -> TaskView:
        """Return the view of a task. The template of the URL contains `{trace_id}`."""
        order, columns = record.order, derive(record)
        # The second part of a traceparent (W3C Trace Context).
        trace_id = None if order.traceparent is None else order.traceparent.split("-")[1]
        trace_url = None
        if trace_url_template and trace_id:
            trace_url = trace_url_template.replace("{trace_id}", trace_id)
        return cls(
            **dict(TaskLine.of(record)),
            order=OrderView.model_validate(order),
            complete_by=columns.complete_by,
            resume_at=record.resume_at,
            expires_at=record.expires_at,
            steps=[StepDetails.of(record, spec) for spec in order.specs],
            gates={gate: since for gate, (since, _) in columns.gates.items()},
            decision=record.decision,
            decision_at=None if record.decision is None else pending_until(record),
            question=record.error if questions(record) else None,
            actions=list(actions),
            history=list(epochs.entries),
            corrupt=[CorruptRow.model_validate(error) for error in epochs.corrupt],
            rejected=list(rejected),
            trace_id=trace_id,
            trace_url=trace_url,
        )


async def read_epochs(storage: TaskStorage, task: str) -> EntryPage[ClosedEpoch]:
    """Return the first 1,000 closed epochs of a task. Raises `TransientStorageError`."""
    return await read_entries(storage.table, shard_of(task, storage.shards), epochs_of(task), closed_epoch)


class ContentText(BaseModel):
    """A text, and whether there is `more` of it. It is null if it is not shown; `why` has the reason."""

    text: Annotated[str | None, Field(examples=['{\n  "amount": "4.90",\n  "card": "(hidden)"\n}'])]
    more: bool = False
    why: str | None = None


class TaskContents(BaseModel):
    """The payload and the output of a task, null if there is none."""

    payload: ContentText | None
    output: ContentText | None


class StepContents(BaseModel):
    """The recorded requests of a step, and its result; null if there is none.

    `earlier_requests` were sent under other effect keys. `event` is the JSON Schema of the event of a step.
    """

    request: ContentText | None
    earlier_requests: list[ContentText | None]
    undo_request: ContentText | None
    result: ContentText | None
    event: ContentText | None


class Contents:
    """The payload, requests and results of one task as operators see them, by the deployed models."""

    def __init__(self, record: TaskRecord, registry: WorkflowRegistry) -> None:
        self._record, self._registry = record, registry

    def task(self) -> TaskContents:
        """Return the payload and the output."""
        payload = _content_text(
            lambda text: redacted(self._workflow.payload, text), self._record.order.payload
        )
        return TaskContents(payload=payload, output=_content_text(self._without_model, self._record.output))

    def step(self, spec: StepSpec) -> StepContents:
        """Return the contents of a step. No request is sent for an event or a timer."""
        step, is_event = self._record.step(spec.name), spec.type is StepType.EVENT
        is_sent = not is_event and spec.type is not StepType.TIMER
        request = partial(self._request, spec)
        return StepContents(
            request=_content_text(request, step.do.request if is_sent else None),
            earlier_requests=[_content_text(request, do.request) for do in step.earlier_dos],
            undo_request=_content_text(request, step.undo.request),
            result=_content_text(partial(self._result, spec), step.do.result or step.event),
            event=_content_text(lambda _: self._schema(spec), "" if is_event else None),
        )

    @property
    def _workflow(self) -> Workflow[Any]:
        order = self._record.order
        workflow = self._registry.find(order.workflow, order.version)
        if workflow is None:
            version = f"version {order.version} of workflow {order.workflow}"
            raise NotShownError(f"{version} is not deployed; its models name the secret fields")
        return workflow

    def _model(self, spec: StepSpec) -> type[BaseModel] | None:
        step = self._workflow.steps.get(spec.step)
        if step is None:
            raise NotShownError(f"step {spec.step} is not deployed; its model names the secret fields")
        return step.model

    def _request(self, spec: StepSpec, text: str) -> Any:
        if spec.type is not StepType.WORKFLOW:
            return self._without_model(text)
        children = self._registry.versions_accepting(spec.workflow, text)
        if not children:
            raise NotShownError(f"no deployed version of workflow {spec.workflow} accepts it")
        models = [child.payload for child in children]
        return redacted(next(filter(has_secrets, models), models[0]), text)

    def _without_model(self, text: str) -> Any:
        """Return a text that may contain any field of the payload, an event or a result."""
        if workflow_has_secrets(self._workflow):
            raise NotShownError("its workflow has secret fields, and no model names those of this text")
        return from_json(text)

    def _result(self, spec: StepSpec, text: str) -> Any:
        model = self._model(spec)
        return from_json(text) if model is None else redacted(model, text)

    def _schema(self, spec: StepSpec) -> Any:
        model = self._model(spec)
        try:
            return None if model is None else model.model_json_schema()
        except Exception as fault:  # noqa: BLE001 - pydantic, or a type of the model, may raise anything
            raise NotShownError(f"its model has no JSON schema ({type(fault).__name__})") from None


def _content_text(value_of: Callable[[str], Any], text: str | None) -> ContentText | None:
    """Return the beginning of a value as JSON."""
    if text is None:
        return None
    try:
        shown, more = printable_text(json.dumps(value_of(text), ensure_ascii=False, indent=2))
    except NotShownError as error:
        return ContentText(text=None, why=f"{error}.")
    return ContentText(text=shown, more=more)
