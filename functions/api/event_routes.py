"""The routes of events: callers read which event a step waits for, and send it once."""

# ruff: noqa: I002 - FastAPI reads the annotations of routes at run time

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Body, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json, to_json

from functions.api.order_routes import TaskInPath
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.derive import StepState, step_state
from functions.core.json_values import MOST_TEXT_BYTES, UnfitValueError, bounded
from functions.core.plan import check_deployed, checked_result
from functions.core.record import NAME_PATTERN, NotDeployedError, StepSpec, StepType, TaskRecord
from functions.core.step_rules import receive_event
from functions.core.task_events import EventReceived, Rejection, Suspended
from functions.http.access import Caller, caller_of
from functions.http.problems import ProblemError, documented_problems
from functions.http.redaction import public_faults
from functions.messaging.task_messages import caller_reason
from functions.storage.table_contract import NoSuchTaskError
from functions.storage.task_storage import TaskStorage
from functions.telemetry.spans import decision_span

#: The paths of events: the step names the necessary role.
EVENT_PATHS = re.compile(rf"/api/{NAME_PATTERN}/[^/]+/events/[^/]+")

StepInPath = Annotated[
    str,
    Path(
        alias="step",
        pattern=f"^{NAME_PATTERN}$",
        description="The step that waits for the event",
        examples=["approve"],
    ),
]
EventBody = Annotated[
    dict[str, Any], Body(description="An event of the step's model", examples=[{"approved": True}])
]

#: Faults of a text where a strict model requires a type that JSON does not have.
_TYPES_AS_TEXT = frozenset({"bytes_type", "date_type", "datetime_type", "time_delta_type", "time_type"})


class EventTaken(BaseModel):
    """The event is recorded. It is the result of its step as soon as the step has started."""

    id: str
    step: str
    state: StepState


class WaitingStep(BaseModel):
    """A step that waits for an event. Times are UTC.

    `body` is the JSON schema of the event; null if the version of the task is not deployed here, or if its
    model has no schema.
    """

    id: str
    step: str
    role: str
    state: StepState
    since: datetime | None
    complete_by: datetime | None
    body: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Shows and records events. Its methods raise `StorageError`, and `ProblemError` for callers."""

    storage: TaskStorage
    registry: WorkflowRegistry
    now: Callable[[], datetime]

    async def show(self, workflow: Workflow[Any], task: str, name: str, caller: Caller) -> WaitingStep:
        """Return a step that waits for an event, for its role and for callers that may see the task."""
        record = await self._load(workflow, task)
        spec, do = _visible_step(record, name, caller), record.do(name)
        try:
            schema = _schema_of(self._model(record, spec))
        except NotDeployedError:
            schema = None
        return WaitingStep(
            id=task,
            step=name,
            role=spec.role,
            state=step_state(record, spec),
            since=do.started_at,
            complete_by=do.complete_by,
            body=schema,
        )

    async def receive(
        self, workflow: Workflow[Any], task: str, name: str, body: Mapping[str, Any], caller: Caller
    ) -> EventTaken:
        """Record an event, once. Raises `ProblemError` 403, 404, 409, 413, 422, 503."""
        record = await self._load(workflow, task)
        spec = _visible_step(record, name, caller)
        caller.check_bears(spec.role, record.order.submitter)
        in_order = json.dumps(body, ensure_ascii=False, sort_keys=True)
        text = to_json(from_json(in_order), inf_nan_mode="constants").decode()  # in the form of the record
        if len(text.encode("utf-16-le")) > MOST_TEXT_BYTES:
            limit = f"An event has at most {MOST_TEXT_BYTES} bytes in UTF-16."
            raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, limit)
        after = receive_event(record, EventReceived(step=name, body=text, who=caller.name), self.now())
        if isinstance(after, Rejection) and after is not Rejection.NOT_DEPLOYED:
            raise _rejected(record, spec, after)
        if after is not record:  # a repeated event needs no model
            record = await self._record(record, spec, text, caller)
        return EventTaken(id=task, step=name, state=step_state(record, spec))

    async def _record(self, record: TaskRecord, spec: StepSpec, text: str, caller: Caller) -> TaskRecord:
        """Record an event that is new. Without the version of the task, suspend the task."""
        task = record.order.task
        try:
            _check_event(self._model(record, spec), text)
            text = checked_result(record, self.registry, spec.name, text)
            with decision_span(record, "event"):
                event = EventReceived(step=spec.name, body=text, who=caller.name)
                applied = await self.storage.change(task, event)
        except NotDeployedError as error:
            # The deadlines of a suspended task do not run, so the sender has time to try again.
            if record.suspension is None:
                await self.storage.change(task, Suspended(reason=bounded(str(error))))
            raise _not_deployed() from error
        except UnfitValueError as error:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        except NoSuchTaskError:
            raise _not_found() from None
        if applied.rejection is Rejection.NOT_DEPLOYED:
            raise _not_deployed()
        if applied.rejection is not None:
            raise _rejected(applied.record, spec, applied.rejection)
        return applied.record

    async def _load(self, workflow: Workflow[Any], task: str) -> TaskRecord:
        record = await self.storage.load(task)
        if record is None or record.order.workflow != workflow.name:
            raise _not_found()
        return record

    def _model(self, record: TaskRecord, spec: StepSpec) -> type[BaseModel]:
        """Return the model of an event. Raises `NotDeployedError`."""
        check_deployed(record, self.registry)
        workflow = self.registry.find(record.order.workflow, record.order.version)
        model = None if workflow is None else workflow.steps[spec.step].model
        if model is None:
            raise NotDeployedError(f"step {spec.name} has no model here")
        return model


def _visible_step(record: TaskRecord, name: str, caller: Caller) -> StepSpec:
    """Return an event step that the caller may see: by the role of the step, or with the task."""
    spec, submitter = record.order.by_name.get(name), record.order.submitter
    if spec is None or spec.type is not StepType.EVENT:
        raise _not_found()
    if not caller.may_see(submitter) and not caller.bears(spec.role, submitter):
        raise _not_found()
    return spec


def _not_deployed() -> ProblemError:
    later = "The task's version of the workflow is not deployed here. Try again later."
    return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, later)


def _check_event(model: type[BaseModel], text: str) -> None:
    """Validate an event strictly: "no" is no bool. Raises `RequestValidationError` and `UnfitValueError`.

    Below a validator of the model, a strict date is no text. JSON has no dates, so the text counts there.
    """
    try:
        try:
            model.model_validate_json(text, strict=True)
        except ValidationError as error:
            if not all(map(_has_no_json_type, error.errors(include_url=False))):
                raise
            model.model_validate_json(text)
    except ValidationError as error:
        raise RequestValidationError(public_faults(model, "body", error)) from None
    except Exception as fault:  # a validator of the model may raise anything
        raise UnfitValueError("The event cannot be read.") from fault


def _has_no_json_type(fault: ErrorDetails) -> bool:
    """Return whether a strict model requires a type that JSON has as a text or a number only."""
    kind, given = fault["type"], type(fault["input"])
    is_number = kind == "is_instance_of" and given in {str, int, float}
    return is_number or (kind in _TYPES_AS_TEXT and given is str)


def _schema_of(model: type[BaseModel]) -> dict[str, Any] | None:
    try:
        return model.model_json_schema()
    except Exception:  # noqa: BLE001 - pydantic, or a type of the model, may raise anything
        return None


def _not_found() -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, "No step that waits for an event is recorded here (yet).")


def _rejected(record: TaskRecord, spec: StepSpec, rejection: Rejection) -> ProblemError:
    text = f"The event is rejected: {rejection}."
    if record.step(spec.name).event is not None:
        text = "Another event was recorded for this step before."
    elif rejection is Rejection.FINISHED:
        text = "The task has ended, or is being undone."
    elif rejection is Rejection.NOT_OPEN:
        reason = caller_reason(record.do(spec.name).error)
        text = f"The step has ended: {reason or 'it was not needed, or continued without the event'}."
    return ProblemError(HTTPStatus.CONFLICT, text)


def add_event_routes(app: FastAPI, workflow: Workflow[Any], events: Events) -> None:
    """Add the routes of events for every workflow: a task of another version may wait for an event."""
    path = f"/api/{workflow.resource}/{{id}}/events/{{step}}"

    @app.get(
        path,
        tags=[workflow.resource],
        responses=documented_problems(404, 422, 503),
        description=f"Show a step of this {workflow.noun} that waits for an event\n\n"
        "For callers with the role of the step, and for callers that may see the task.",
    )
    async def show(task: TaskInPath, step: StepInPath, request: Request) -> WaitingStep:
        return await events.show(workflow, task, step, caller_of(request))

    @app.post(
        path,
        tags=[workflow.resource],
        responses=documented_problems(400, 404, 409, 413, 415, 422, 503),
        description=f"Send the event that a step of this {workflow.noun} waits for\n\nThe same event again"
        " gets the same answer. Another event is rejected with 409.",
    )
    async def send(task: TaskInPath, step: StepInPath, body: EventBody, request: Request) -> EventTaken:
        return await events.receive(workflow, task, step, body, caller_of(request))
