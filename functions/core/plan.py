"""The plan of a run: the steps that it starts next.

Only this module and the admission of an order (`for_each`, `find_by`) call functions of a definition.
Functions of a definition are pure, but nothing depends on it: each call has its own copies of payload and
results, and each error or wrong value of a function becomes an event. Times are UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from functions.core import task_events as events
from functions.core.definition.defined_step import DefinedStep, items_of
from functions.core.definition.step_definition import Results
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.derive import look_ups, ready_steps, with_needs
from functions.core.error_texts import error_text
from functions.core.gate_rules import Gate
from functions.core.json_values import UnfitValueError, bounded, item_digest, json_text
from functions.core.record import (
    Direction,
    NotDeployedError,
    OperationState,
    StepSpec,
    StepType,
    TaskRecord,
    replace,
)
from functions.core.task_events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits of one run, and the functions by which its plan gets start ids and gates.

    `room` is the number of further calls that it may have under way. All end by `ends_at`; a call that could
    last longer starts only before it `has_begun` another one. By `send_by` it records which requests it has
    sent. `new_id` returns a random start id. `gate` returns a gate as this instance last read it.
    """

    epoch: int
    run: int
    room: int
    ends_at: datetime
    new_id: Callable[[], str]
    gate: Callable[[str], Gate | None]
    has_begun: bool = False
    send_by: datetime | None = None


class _ResultError(UnfitValueError):
    """The model of a step rejects its recorded result."""

    def __init__(self, step: str, error: str) -> None:
        super().__init__(f"{step}: {error}")
        self.step, self.error = step, error


def plan(record: TaskRecord, limits: RunLimits, registry: WorkflowRegistry, now: datetime) -> list[Event]:
    """Return the events that start look-ups, and start, skip or defer the ready steps. It raises nothing.

    A recorded request is sent again as it is. Without a definition that is needed, the task is suspended.
    """
    if record.epoch != limits.epoch:
        return []
    planned: list[Event] = []
    room = limits.room
    finds = look_ups(record)
    order = record.order
    if finds and record.decision is None and registry.find(order.workflow, order.version) is None:
        return [events.Suspended(reason=f"workflow {order.workflow} is not deployed", epoch=record.epoch)]
    for name in (*finds, *ready_steps(record)):
        spec = order.by_name[name]
        operation = record.current(name)
        is_call = spec.type is StepType.ACTIVITY
        gate = limits.gate(spec.gate) if spec.agent and not operation.finds_left else None
        if gate is not None and gate.blocks(is_released=operation.is_released):
            planned.append(events.StepDeferred(epoch=record.epoch, step=name))
            continue
        may_outlast = now + timedelta(seconds=spec.complete_within) > limits.ends_at
        if is_call and (room <= 0 or (limits.has_begun and may_outlast)):
            continue
        event = _event_for(record, spec, limits, registry, now)
        planned.append(event)
        if is_call and isinstance(event, events.StepStarted):
            room -= 1
    return planned


def _event_for(
    record: TaskRecord, spec: StepSpec, limits: RunLimits, registry: WorkflowRegistry, now: datetime
) -> Event:
    operation = record.current(spec.name)
    request = operation.request
    complete_by = now + timedelta(seconds=spec.complete_within)
    if spec.type is StepType.ACTIVITY:
        complete_by = min(complete_by, limits.ends_at)
    if request is None:
        try:
            definition = _Definition(record, registry)
            definition.check_payload()
            if not definition.is_needed(spec):
                return events.StepSkipped(epoch=record.epoch, step=spec.name)
            request = definition.request(spec)
            if spec.type is StepType.TIMER:
                complete_by = max(now, definition.until(spec, now))
        except NotDeployedError as error:
            return events.Suspended(reason=bounded(str(error)), epoch=record.epoch)
        except Exception as error:  # noqa: BLE001 - a function of a definition may raise anything
            if isinstance(error, _ResultError) and record.direction is Direction.DO:
                return events.ResultRejected(epoch=record.epoch, step=error.step, error=error.error)
            return events.StepBroken(epoch=record.epoch, step=spec.name, error=error_text(error))
    return events.StepStarted(
        epoch=record.epoch,
        run=limits.run,
        step=spec.name,
        start_id=(operation.start_id if operation.finds_left else None) or limits.new_id(),
        complete_by=complete_by,
        request=request,
        send_by=limits.send_by if spec.type is StepType.QUEUE else None,
    )


def check_deployed(record: TaskRecord, registry: WorkflowRegistry) -> None:
    """Raise `NotDeployedError` unless a task's version and the workflows of its children are deployed.

    It also checks the items of the steps that are ready, or become ready when the task is resumed.
    """
    definition = _Definition(record, registry)
    definition.check_payload()
    for spec in record.order.specs:
        if spec.type is StepType.WORKFLOW and registry.find(spec.workflow) is None:
            raise NotDeployedError(f"workflow {spec.workflow} is not deployed")
    for name in ready_steps(replace(record, suspension=None)):
        if record.current(name).request is None:
            definition.check_item(record.order.by_name[name])


def output_of(record: TaskRecord, registry: WorkflowRegistry) -> str | None:
    """Return the output (JSON) of a processed task, None for a workflow without output.

    Raises `NotDeployedError`, and `UnfitValueError` with the error of the workflow's function.
    """
    definition = _Definition(record, registry)
    function = definition.workflow.output
    definition.check_payload()
    if function is None:
        return None
    try:
        results = definition.results(frozenset(definition.workflow.steps), "output")
        return json_text("output", function(definition.payload(), results))
    except Exception as error:
        raise UnfitValueError(error_text(error)) from error


def checked_result(record: TaskRecord, registry: WorkflowRegistry, name: str, result: str | None) -> str:
    """Return the result of a step as compact JSON. Raises `UnfitValueError` if it cannot be recorded."""
    spec = record.order.by_name.get(name)
    if spec is None:
        raise UnfitValueError(f"the task has no step {name}")
    try:
        text = json_text("result", from_json(result or ""))
        _read_result(_Definition(record, registry).workflow.steps[spec.step], text)
    except NotDeployedError:
        return text
    except Exception as error:
        raise UnfitValueError(error_text(error)) from error
    return text


class _Definition:
    """The deployed definition of one task's version. Raises `NotDeployedError` if it is not deployed."""

    def __init__(self, record: TaskRecord, registry: WorkflowRegistry) -> None:
        order = record.order
        version = f"version {order.version} of workflow {order.workflow}"
        workflow = registry.find(order.workflow, order.version)
        if workflow is None:
            raise NotDeployedError(f"{version} is not deployed")
        if workflow.digest != order.digest:
            raise NotDeployedError(f"{version} is deployed with other steps than it was submitted with")
        self.workflow: Workflow[BaseModel] = workflow
        self._record, self._registry, self._version = record, registry, version
        self._unused_copy: BaseModel | None = None

    def check_payload(self) -> None:
        """Raise `NotDeployedError` if the payload's model rejects the payload."""
        self._unused_copy = self.payload()

    def payload(self) -> BaseModel:
        """Return a copy of the payload that no other function has. Raises `NotDeployedError`."""
        copy = self._unused_copy
        if copy is not None:  # it saves one validation: the first caller gets the copy of the check
            self._unused_copy = None
            return copy
        try:
            return self.workflow.payload.model_validate_json(self._record.order.payload)
        except Exception as error:
            fault = error_text(error)
            raise NotDeployedError(f"{self._version} is deployed with another payload: {fault}") from error

    def is_needed(self, spec: StepSpec) -> bool:
        """Return whether the condition of a step holds. An undo has no condition."""
        step = self.workflow.steps[spec.step]
        if self._record.direction is Direction.UNDO or step.when is None:
            return True
        return bool(step.when(*self._inputs(spec, step)))

    def request(self, spec: StepSpec) -> str:
        """Return the request (JSON) of an operation, "{}" for a step that sends none."""
        step = self.workflow.steps[spec.step]
        if self._record.direction is Direction.UNDO:
            return self._undo_request(spec, step)
        if step.request is None:
            return "{}"
        request = json_text("request", step.request(*self._inputs(spec, step)))
        if spec.type is StepType.WORKFLOW:
            child = self._registry.find(spec.workflow)
            if self._registry.find(self.workflow.name) is not self.workflow:  # it may need an older one
                child = self._registry.accepting(spec.workflow, request)
            if child is None:
                raise NotDeployedError(f"workflow {spec.workflow} is not deployed")
            child.specs_of(child.payload.model_validate_json(request))
        return request

    def until(self, spec: StepSpec, now: datetime) -> datetime:
        """Return the time at which a timer ends. Raises `UnfitValueError` for no time within a year."""
        step = self.workflow.steps[spec.step]
        time = None if step.until is None else step.until(*self._inputs(spec, step))
        if not isinstance(time, datetime) or time.tzinfo is None:
            raise UnfitValueError(f"until returned {type(time).__name__}: return a datetime with a time zone")
        if time > now + timedelta(days=366):
            raise UnfitValueError(f"until returned {time:%Y-%m-%d}: return a time within a year")
        return time.astimezone(UTC)

    def results(self, names: frozenset[str], reader: str) -> Results:
        """Return the results of defined steps; a for-each step has a list."""
        values: dict[str, Any] = {name: [] for name in names if self.workflow.steps[name].for_each}
        for spec in self._record.order.specs:
            if spec.step in names:
                value = self._result(spec)
                values[spec.step] = value if spec.item is None else [*values[spec.step], value]
        return Results(values, reader)

    def _undo_request(self, spec: StepSpec, step: DefinedStep) -> str:
        """Return the request of an undo: made from the do's own result, or else the request of the do."""
        recorded = self._record.step(spec.name)
        do = recorded.dispatched[recorded.generation(Direction.UNDO)]
        if step.undo is None:
            return do.request or "{}"
        payload, results, *item = self._inputs(spec, step)
        try:
            own = _read_result(step, do.result)
        except Exception:  # noqa: BLE001 - a model's validator may raise anything
            own = None  # the model has changed: the undo function handles an unknown result
        return json_text("request", step.undo(payload, results, own, *item))

    def _inputs(self, spec: StepSpec, step: DefinedStep) -> tuple[Any, ...]:
        """Return the arguments of a step's functions: payload, results of needed steps, and the item."""
        results = self.results(with_needs(self._record, spec.needs), f'step "{spec.step}"')
        item = () if spec.item is None else (self._item(spec, step),)
        return (self.payload(), results, *item)

    def check_item(self, spec: StepSpec) -> None:
        """Raise `NotDeployedError` if the request of a step needs an item that is not deployed."""
        step = self.workflow.steps[spec.step]
        if spec.item is not None and (step.undo is not None or self._record.direction is Direction.DO):
            self._item(spec, step)

    def _item(self, spec: StepSpec, step: DefinedStep) -> Any:
        payload = self.payload()
        try:
            item = items_of(step, payload)[spec.item or 0]
            is_same = item_digest(item) == spec.item_digest
        except Exception:  # noqa: BLE001 - a function of a definition may raise anything
            is_same = False
        if not is_same:
            raise NotDeployedError(f"{self._version} is deployed with other items of step {spec.step}")
        return item

    def _result(self, spec: StepSpec) -> Any:
        do = self._record.do(spec.name)
        if do.state is not OperationState.DONE or spec.type is StepType.TIMER:
            return None
        try:
            return _read_result(self.workflow.steps[spec.step], do.result)
        except Exception as error:
            raise _ResultError(spec.name, error_text(error)) from error


def _read_result(step: DefinedStep, result: str | None) -> Any:
    if result is None:
        return None
    return from_json(result) if step.model is None else step.model.model_validate_json(result)
