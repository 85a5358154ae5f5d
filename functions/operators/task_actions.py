"""Operators' actions on one task, and their previews.

An action that opens an epoch is recorded on the closed one with its operator and reason. A suspension, an
event and the verdict on an undo name both in their own texts. Every action is logged and traced.

Times are UTC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, assert_never

from fastapi import Depends, Header
from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from functions.core import task_events as events
from functions.core.definition.defined_step import MOST_STEPS
from functions.core.definition.definition_checks import BUILT_IN_ROLES
from functions.core.definition.step_definition import Json
from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.core.derive import ProcessState, derive, is_settled, undo_order, with_needs
from functions.core.json_values import UnfitValueError, bounded
from functions.core.operator_rules import can_rebuild
from functions.core.plan import RunLimits, check_deployed, checked_result, plan
from functions.core.record import (
    UNDOING_ENDS,
    Direction,
    NotDeployedError,
    OperationState,
    RuleSettings,
    StepSpec,
    StepType,
    TaskRecord,
)
from functions.core.rules import apply
from functions.core.task_events import Event, Rejection, Verdict
from functions.http.access import OWN_HEADER, Caller
from functions.http.problems import ProblemError, documented_problems
from functions.operators.task_list import wrong_field
from functions.storage.task_storage import TaskStorage
from functions.telemetry.instruments import record_action
from functions.telemetry.spans import decision_span


async def _own_header(
    own: Annotated[str, Header(alias=OWN_HEADER, description="Any value, such as `curl`")],
) -> None:
    """Document the header, which `check_origin` has checked."""


NEEDS_OWN_HEADER = Depends(_own_header)

#: The settings of the routes of actions.
ACTION: dict[str, Any] = {
    "status_code": HTTPStatus.ACCEPTED,
    "dependencies": [NEEDS_OWN_HEADER],
    "responses": documented_problems(400, 404, 409, 413, 415, 422, 503),
}


#: Bytes of UTF-8 of 500 characters.
_MOST_REASON_BYTES = 2000


class Reason(BaseModel):
    """The reason of an operator's action. Characters that cannot be printed become spaces."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "it was a test"}]})

    reason: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=500),
        AfterValidator(lambda text: bounded(text, _MOST_REASON_BYTES)),
    ]


class ActionName(StrEnum):
    """The actions, as addresses, logs and traces name them."""

    RESUBMIT = "resubmit"
    UNDO = "undo"
    CANCEL = "cancel"
    SUSPEND = "suspend"
    RESUME = "resume"
    # The actions on one step; `skip` sets the result of a step that failed.
    REBUILD = "rebuild"
    DONE = "done"
    SKIP = "skip"
    NOT_DONE = "not-done"
    UNDONE = "undone"
    LEAVE = "leave"
    EVENT = "event"


WHOLE_TASK = (
    ActionName.RESUBMIT,
    ActionName.UNDO,
    ActionName.CANCEL,
    ActionName.SUSPEND,
    ActionName.RESUME,
)
#: The field of the step's result or event in a request.
CONTENT_FIELDS = {ActionName.DONE: "result", ActionName.SKIP: "result", ActionName.EVENT: "body"}
_VERDICTS = {
    ActionName.DONE: Verdict.DONE,
    ActionName.SKIP: Verdict.DONE,
    ActionName.NOT_DONE: Verdict.NOT_DONE,
    ActionName.UNDONE: Verdict.UNDONE,
    ActionName.LEAVE: Verdict.LEFT,
}


@dataclass(frozen=True, slots=True)
class Action:
    """One action. The `content` is the result or the event of the step."""

    name: ActionName
    step: str | None = None
    content: Json | None = None


def action_event(  # noqa: PLR0911 - one for each action
    record: TaskRecord, action: Action, *, who: str = "", reason: str = "", text: str = "{}"
) -> Event:
    """Return the event of an action in the epoch of `record`. `text` is the result or the event as JSON."""
    epoch, step = record.epoch, action.step or ""
    match action.name:
        case ActionName.RESUBMIT | ActionName.REBUILD:
            return events.Resubmitted(epoch=epoch, who=who, reason=reason, rebuild=action.step)
        case ActionName.UNDO:
            return events.UndoRequested(epoch=epoch, who=who, reason=reason)
        case ActionName.CANCEL:
            return events.Cancelled(by=events.Canceller.OPERATOR, who=who, reason=reason)
        case ActionName.SUSPEND:
            return events.Suspended(reason=f"{who}: {reason}", by_operator=True, epoch=epoch)
        case ActionName.RESUME:
            return events.Resumed(by_operator=True)
        case ActionName.EVENT:
            return events.EventReceived(step=step, body=text, who=f"{who}: {reason}")
        case ActionName.DONE | ActionName.SKIP | ActionName.NOT_DONE | ActionName.UNDONE | ActionName.LEAVE:
            given = text if action.name in CONTENT_FIELDS else None
            verdict = _VERDICTS[action.name]
            return events.Answered(
                epoch=epoch, step=step, verdict=verdict, who=who, reason=reason, result=given
            )
        case _:
            assert_never(action.name)


_REJECTED = {
    Rejection.STALE_EPOCH: "The task is in another epoch now. Reload its page and decide again.",
    Rejection.NOT_IN_ERROR: "The task is not in Error. This action applies only there.",
    Rejection.OUTCOME_UNKNOWN: "The outcome or result of a step is missing. Answer that, or undo the task.",
    Rejection.FINISHED: "The task has ended, is in Error, or is being undone.",
}
_NOT_OPEN = {
    ActionName.RESUME: "No operator has suspended the task.",
    ActionName.REBUILD: "It was not refused, had no answer once, or is behind a queue. Resubmit or undo it.",
    ActionName.DONE: "The outcome of this step is not in question, and it has not failed.",
    ActionName.SKIP: "The outcome of this step is not in question, and it has not failed.",
    ActionName.NOT_DONE: "The outcome of this step is not in question.",
    ActionName.UNDO: "The task is being undone. Resubmit it, or answer the undos that were refused.",
    ActionName.UNDONE: "The undo of this step is not open.",
    ActionName.LEAVE: "The undo of this step is not open.",
    ActionName.EVENT: "Another event is recorded for this step, or the step has ended.",
}
_UNCHANGED = {
    ActionName.CANCEL: "The task is undone or being undone already. There is nothing left to cancel.",
    ActionName.SUSPEND: "An operator has suspended the task already.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskActions:
    """Takes operators' actions. `registry` has the deployed workflows."""

    storage: TaskStorage
    registry: WorkflowRegistry
    settings: RuleSettings
    now: Callable[[], datetime]

    async def take(self, seen: TaskRecord, action: Action, caller: Caller, reason: str) -> TaskRecord:
        """Record an action on a task that was seen in this state, and return the task after it.

        Raises `ProblemError` (403, 404, 409, 422, 503) and `StorageError`.
        """
        with decision_span(seen, action.name):
            after = await self._take(seen, action, caller, reason)
        step = "" if action.step is None else f"/steps/{action.step}"
        record_action(caller.name, action.name, f"tasks/{seen.order.task}{step}")
        return after

    async def _take(self, seen: TaskRecord, action: Action, caller: Caller, reason: str) -> TaskRecord:
        spec = None if action.step is None else spec_of(seen, action.step)
        text = "{}"
        if spec is not None and action.content is not None:
            text = self._checked(seen, spec, action, caller)
        event = action_event(seen, action, who=caller.name, reason=reason, text=text)
        if not isinstance(event, events.EventReceived):
            after = apply(seen, event, self.now(), self.settings)
            if isinstance(after, Rejection):
                raise _rejected(action, after)
            if after is seen:
                raise ProblemError(HTTPStatus.CONFLICT, _UNCHANGED[action.name])
            if spec is not None and action.content is not None:
                self._check_following(after, spec, action)
        return await self._record(seen, action, event)

    async def _record(self, seen: TaskRecord, action: Action, event: Event) -> TaskRecord:
        """Record an event. A cancel is not recorded if the task has ended since it was seen."""
        task = seen.order.task
        if isinstance(event, events.Cancelled) and seen.direction is Direction.DO:

            def unless_ended(read: TaskRecord, _now: datetime) -> Sequence[Event]:
                return [event] if read.finished_at in {None, seen.finished_at} else []

            record = (await self.storage.change(task, None, plan=unless_ended)).record
            if record.finished_at is not None and record.direction is Direction.DO:
                raise ProblemError(HTTPStatus.CONFLICT, "The task has ended meanwhile. Reload its page.")
            return record
        applied = await self.storage.change(task, event)
        if applied.rejection is Rejection.NOT_DEPLOYED:
            raise _not_deployed(action, applied.rejection)
        if applied.rejection is not None:
            raise _rejected(action, applied.rejection)
        suspension = applied.record.suspension
        if isinstance(event, events.Suspended) and (suspension is None or suspension.reason != event.reason):
            raise ProblemError(HTTPStatus.CONFLICT, _UNCHANGED[action.name])  # another operator was first
        return applied.record

    def _checked(self, record: TaskRecord, spec: StepSpec, action: Action, caller: Caller) -> str:
        """Return a result or an event as JSON. Raises `ProblemError`.

        An event needs the role of its sender. A result needs the role of the step, unless it is a built-in
        role.
        """
        if action.name is ActionName.EVENT:
            if spec.type is not StepType.EVENT:
                raise ProblemError(HTTPStatus.NOT_FOUND, f"Step {spec.name} waits for no event.")
            caller.check_bears(spec.role, record.order.submitter)
        elif spec.role and spec.role not in BUILT_IN_ROLES:
            caller.check(spec.role)
        try:
            check_deployed(record, self.registry)
            text = json.dumps(action.content, sort_keys=True)
            return checked_result(record, self.registry, spec.name, text)
        except NotDeployedError as error:
            raise _not_deployed(action, str(error)) from None
        except UnfitValueError as error:
            raise wrong_field(CONTENT_FIELDS[action.name], str(error)) from None

    def _check_following(self, after: TaskRecord, given: StepSpec, action: Action) -> None:
        """Check that the output or the next requests can be made of a result. Nothing is written.

        A defect of a step that does not need the result rejects nothing.
        """
        if after.finished_at is not None and after.error is None and after.reason is not None:
            raise wrong_field("result", after.reason)
        limits = RunLimits(
            epoch=after.epoch,
            run=after.run,
            room=MOST_STEPS,
            ends_at=datetime.max.replace(tzinfo=UTC),
            new_id=lambda: "trial",
            gate=lambda _name: None,
        )
        for event in plan(after, limits, self.registry, self.now()):
            if isinstance(event, events.Suspended):
                raise _not_deployed(action, event.reason)
            if isinstance(event, events.StepBroken):
                needs = with_needs(after, after.order.by_name[event.step].needs)
                if given.step in needs:
                    raise wrong_field("result", f"step {event.step} cannot start: {event.error}")


def spec_of(record: TaskRecord, name: str) -> StepSpec:
    """Return the spec of a step or an item. Raises `ProblemError` 404."""
    spec = record.order.by_name.get(name)
    if spec is None:
        text = f"The task has no step {name}. Its steps are {', '.join(record.order.by_name)}."
        raise ProblemError(HTTPStatus.NOT_FOUND, text)
    return spec


def _rejected(action: Action, rejection: Rejection) -> ProblemError:
    texts = {**_REJECTED, Rejection.NOT_OPEN: _NOT_OPEN.get(action.name, "")}
    text = texts.get(rejection) or f"The task rejects the action: {rejection}."
    return ProblemError(HTTPStatus.CONFLICT, text)


def _not_deployed(action: Action, reason: str) -> ProblemError:
    if action.name is ActionName.EVENT:
        return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, f"{reason}. Send the event again later.")
    return ProblemError(HTTPStatus.CONFLICT, f"{reason}. Answer where the version is deployed.")


class ActionPreview(BaseModel):
    """The steps that run or are undone after an action, in this order, and the `state` right after it.

    Without `action`, they follow automatically. A pending outcome of a step that must not be repeated is
    awaited first, at the latest until `waits_until`.
    """

    action: ActionName | None
    step: str | None
    runs: list[str]
    undoes: list[str]
    state: ProcessState
    waits_until: datetime | None


def previews(record: TaskRecord, now: datetime, settings: RuleSettings) -> Iterator[ActionPreview]:
    """Yield the actions that the task accepts now. Each is applied to the record, and nothing is written.

    No function of a workflow is called. An undo that has begun is resubmitted, and not requested again.
    """
    if record.finished_at is None and record.suspension is None:
        yield _preview(None, record)
    settings = replace(settings, make_output=lambda _record: None)
    for action in _candidates(record):
        after = apply(record, action_event(record, action), now, settings)
        if not isinstance(after, Rejection) and after is not record:
            preview = _preview(action, after)
            yield preview
            if action.name is ActionName.RESUBMIT and record.direction is Direction.DO:
                names = (spec.name for spec, do in record.operations if can_rebuild(spec, do))
                rebuild = ActionName.REBUILD
                yield from (preview.model_copy(update={"action": rebuild, "step": name}) for name in names)


def _candidates(record: TaskRecord) -> Iterator[Action]:
    is_undo = record.direction is Direction.UNDO
    yield from (Action(name) for name in WHOLE_TASK if name is not ActionName.UNDO or not is_undo)
    if record.error is not None:
        names = ActionName.DONE, ActionName.NOT_DONE, ActionName.UNDONE, ActionName.LEAVE
        yield from (Action(name, step) for step in record.steps for name in names)
    waiting = (spec.name for spec in record.order.specs if spec.type is StepType.EVENT)
    yield from (Action(ActionName.EVENT, name) for name in waiting if record.step(name).event is None)


def _preview(action: Action | None, after: TaskRecord) -> ActionPreview:
    decision = after.decision
    is_undone = after.direction is Direction.UNDO or (decision is not None and decision.end in UNDOING_ENDS)
    runs: list[str] = []
    undoes: list[str] = []
    if after.finished_at is None and is_undone:
        undoes = undo_order(after)
    elif after.finished_at is None:
        runs = [spec.name for spec in after.order.specs if not is_settled(spec, after.do(spec.name))]
    return ActionPreview(
        action=None if action is None else action.name,
        step=None if action is None else action.step,
        runs=runs,
        undoes=undoes,
        state=derive(after).state,
        waits_until=None if decision is None else pending_until(after),
    )


def pending_until(record: TaskRecord) -> datetime | None:
    """Return the latest deadline of the pending outcomes of steps that must not be repeated."""
    deadlines = (
        operation.complete_by
        for spec, operation in record.operations
        if operation.state is OperationState.RUNNING and spec.must_not_repeat(record.direction)
    )
    return max((deadline for deadline in deadlines if deadline is not None), default=None)
