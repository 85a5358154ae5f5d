"""What a definition's functions say of a task's step, and whether the deployed definitions have them at all.

A task has its own shape; of its workflow it needs only the functions of its version. When those are not
here, or do not fit what was recorded, it waits: that is nobody's fault, and ends with the right deployment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any, assert_never

from pydantic import BaseModel, ValidationError

from functions.pattern.cannot_start import CannotStart
from functions.pattern.children import children_to_reach, parent_of
from functions.pattern.definition import Json, Registry, Results, Step, Workflow
from functions.pattern.errors import PayloadTooLargeError, PermanentError, UnfitOrderError
from functions.pattern.event_bodies import read_body
from functions.pattern.faults import first_fault
from functions.pattern.identity import Birth, Epoch, StepName, item_of, step_of
from functions.pattern.inputs import all_results, result_of, results_of, undo_results_of
from functions.pattern.items import items_digest, recorded_digest
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.ready import ready_steps
from functions.pattern.records import MAX_ANSWER_BYTES, Order, TaskRecord
from functions.pattern.requests import json_bytes, request_bytes
from functions.pattern.states import Direction, ProcessState, Way
from functions.pattern.step_definition import Items
from functions.pattern.step_records import StepRecord
from functions.pattern.texts import MAX_ERROR_BYTES, bounded, cause_of

#: Payloads that were read and are kept: each step of a task looks at the same one.
_MOST_KEPT = 128


class NotDeployedError(LookupError):
    """What a task needs of its workflow's version is not deployed here; the text says what.

    It ends with what `fault` says, if there is one.
    """

    def __init__(self, text: str, fault: Exception | None = None) -> None:
        super().__init__(text)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Definitions:
    """What is deployed here of one task's workflow, asked about its steps. Its methods are pure.

    It reads each result once, however many steps need it.
    """

    registry: Registry
    record: TaskRecord
    _results: dict[StepName, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def look_at(self, step: StepName) -> bool | datetime | CannotStart:
        """Tell whether the order needs a step that is ready, and that its request, or time, can be made."""
        try:
            if not self.is_needed(step):
                return False
            match via := self.record.step(step).shape.via:
                case Way.TIMER:
                    return self.until(step)
                case Way.WORKFLOW:
                    self._look_at_child(step)
                case Way.ACTIVITY | Way.QUEUE:
                    self.request(step)
                case Way.EVENT:
                    pass
                case _:
                    assert_never(via)
        except Exception as fault:  # noqa: BLE001 - whatever a definition's function raises
            return self.why(f"step '{step}'", fault)
        return True

    def why(self, what: str, fault: Exception) -> CannotStart:
        """Say why a definition gives nothing of what is asked for, and whether the right deployment mends it.

        What it raises is a defect of its own only if its shape is the recorded one, but for limits. If it is
        not, somebody changed it under the task, which waits until it is changed back.
        """
        if isinstance(fault, NotDeployedError):
            return lack_of(fault)
        reason = f"{what}: {cause_of(fault)}"
        if self._workflow().shape.without_limits == self.record.order.shape.without_limits:
            return CannotStart(reason, parks=False, fault=fault)
        in_place = f"{self._version} as it is deployed here is not the recorded one"
        return CannotStart(f"{in_place}; {reason}", parks=True, fault=fault)

    def is_needed(self, step: StepName) -> bool:
        """Tell whether the order needs a step; one that was dispatched once is not judged again."""
        if self.record.task.direction is Direction.UNDO or self.record.step(step).started_at is not None:
            return True
        when = self._step(step).when
        return when is None or when(*self._inputs(step, results_of(self.record, step, self._result)))

    def until(self, step: StepName) -> datetime:
        """Tell until when a timer's step waits (UTC). Raises as `request` does."""
        until = self._step(step).until
        time = None if until is None else until(self._payload(), results_of(self.record, step, self._result))
        if not isinstance(time, datetime) or time.tzinfo is None:
            raise PermanentError(f"its until gave {time!r}, which is no time with its time zone")
        return time.astimezone(UTC)

    def event_model(self, step: StepName) -> type[BaseModel]:
        """Give the model of the body of a step's event. Raises `NotDeployedError`."""
        model = self._step(step).payload
        if model is None:
            raise NotDeployedError(
                f"step '{step}' of {self._version} waits for no event as it is deployed here"
            )
        return model

    def request(self, step: StepName) -> Json:
        """Make the request for a step. Raises `NotDeployedError`, and whatever the definition raises.

        A request that can't be sent is a defect of the definition, too: it raises `PermanentError`.
        """
        defined = self._step(step)
        if self.record.task.direction is Direction.UNDO and defined.undo_request is not None:
            made = defined.undo_request(*self._inputs(step, undo_results_of(self.record, step, self._result)))
        else:
            made = defined.request(*self._inputs(step, results_of(self.record, step, self._result)))
        request_bytes(made)
        return made

    def child_workflow(self, step: StepName) -> Workflow:
        """Give the workflow of which a step is a task, in its newest version. Raises `NotDeployedError`."""
        name = self.record.step(step).shape.workflow or ""
        workflow = self.registry.find(name)
        if workflow is None:
            missing = f"its workflow '{name}' is not deployed here"
            raise NotDeployedError(f"step '{step_of(step)}' of {self._version}: {missing}")
        return workflow

    def child_order(self, step: StepName, at: datetime, birth: Birth) -> Order:
        """Make the order of the task that is a step, submitted `at` that time.

        Raises as `request`, and `PermanentError` when its workflow does not take it.
        """
        workflow, order = self.child_workflow(step), self.record.order
        message = SubmissionMessage(
            task_id=self.record.child(step),
            workflow=workflow.name,
            version=workflow.version,
            payload=dict(self.request(step)),
            submitter=order.submitter,
            submitted_at=at,
            correlation_id=order.correlation_id,
        )
        try:
            made = order_of(message, workflow, birth)
        except ValidationError as error:
            field, said = first_fault(error)
            told = f"does not take its request: {field or 'payload'}: {said}"
            raise PermanentError(f"'{workflow.name}' {told}") from None
        except (PayloadTooLargeError, UnfitOrderError) as error:
            raise PermanentError(f"'{workflow.name}' does not take its request: {error}") from None
        return replace(made, parent=parent_of(self.record, step))

    def answer(self) -> bytes | None:
        """Make the answer to the caller, if the version has one. Raises as `request` does."""
        make = self._workflow().answer
        if make is None:
            return None
        made = make(self._payload(), all_results(self.record, self._result))
        return json_bytes("answer", made, MAX_ANSWER_BYTES)

    def lack_of_answer(self) -> CannotStart | None:
        """Say why a task that is done can't be given its answer here; None if it can, or never could."""
        try:
            if all(step.settled for step in self.record.steps):
                self.answer()
            else:
                self._payload()
        except Exception as fault:  # noqa: BLE001 - whatever a definition's function raises
            lack = self.why("its answer", fault)
            return lack if lack.parks else None
        return None

    def _look_at_child(self, step: StepName) -> None:
        """See that the task can be begun; to be undone, it needs no definition."""
        if self.record.task.direction is Direction.DO:
            self.child_order(step, self.record.task.updated_at, self.record.order.birth)

    def _inputs(self, step: StepName, results: Results) -> tuple[Any, ...]:
        """Give what a step's functions are called with; those of an item get it, too."""
        payload, number = self._payload(), item_of(step)
        return (payload, results) if number is None else (payload, results, self._item(step, number))

    def _item(self, name: StepName, number: int) -> Any:
        for_each, step, order = self._step(name).for_each, step_of(name), self.record.order
        digest = recorded_digest(order.shape, order.item_digests, step)
        self._payload()  # says what does not fit
        of = (self._workflow().payload, order.payload, len(self.record.steps_of(step)), digest)
        items = None if for_each is None else _items(for_each, *of)
        if items is None:
            raise NotDeployedError(f"step '{step}' of {self._version} has other items as it is deployed here")
        return items[number]

    def _step(self, name: StepName) -> Step:
        workflow, shape, step = self._workflow(), self.record.step(name).shape, step_of(name)
        if step not in {each.name for each in workflow.steps}:
            raise NotDeployedError(f"step '{step}' of {self._version} is not deployed here")
        if shape.workflow is not None:
            self.child_workflow(name)
        elif not self.registry.serves(shape):
            can = " with undo" if shape.undo else ""
            raise NotDeployedError(
                f"step '{step}' of {self._version}: its Agent '{shape.agent}' is not deployed here{can}"
                f" (by way {shape.via})"
            )
        return workflow.step(step)

    def _workflow(self) -> Workflow:
        order = self.record.order
        workflow = self.registry.find(order.workflow, order.workflow_version)
        if workflow is None:
            raise NotDeployedError(f"{self._version} is not deployed here")
        return workflow

    def _payload(self) -> BaseModel:
        model, payload = self._workflow().payload, self.record.order.payload
        return self._fitting("the payload", lambda: validated(model, payload))

    def _result(self, step: StepRecord) -> Any:
        """Give a step's result; that of an event is what its model makes of the body."""
        if step.name not in self._results:
            self._results[step.name] = self._read_result(step)
        return self._results[step.name]

    def _read_result(self, step: StepRecord) -> Any:
        body = step.known_result
        if step.shape.via is not Way.EVENT or body is None:
            return result_of(step)
        model = self.event_model(step.name)
        return self._fitting(f"the event of step '{step.name}'", lambda: read_body(model, body))

    def _fitting[ReadT](self, what: str, read: Callable[[], ReadT]) -> ReadT:
        """Read what is recorded through its model. Raises `NotDeployedError`."""
        unfit = f"{what} does not fit {self._version} as it is deployed here"
        try:
            return read()
        except ValidationError as error:
            field, said = first_fault(error)
            raise NotDeployedError(f"{unfit}: {field or 'payload'}: {said}", ValueError(said)) from None
        except Exception as error:
            raise NotDeployedError(f"{unfit}: {cause_of(error)}", error) from error

    @property
    def _version(self) -> str:
        return f"version {self.record.order.workflow_version} of '{self.record.order.workflow}'"


def lack_of(lack: NotDeployedError) -> CannotStart:
    """Say what a task is parked for."""
    return CannotStart(str(lack), parks=True, fault=lack.fault)


@lru_cache(maxsize=_MOST_KEPT)
def validated(model: type[BaseModel], payload: bytes) -> BaseModel:
    """Read JSON that was sent as the model's, once. Raises what the model raises."""
    return model.model_validate_json(payload)


@lru_cache(maxsize=_MOST_KEPT)
def _items(
    for_each: Items, model: type[BaseModel], payload: bytes, count: int, digest: str
) -> tuple[Any, ...] | None:
    """Give the items of an order; None when they are not those that were recorded."""
    items = tuple(islice(for_each(validated(model, payload)), count + 1))
    are_recorded = len(items) == count and items_digest(items) == digest
    return items if are_recorded else None


def what_is_missing(registry: Registry, record: TaskRecord) -> CannotStart | None:
    """Say why nobody here could go on with a task, or end one that is done; None if one could."""
    task = replace(record.task, process_state=ProcessState.PROCESSING, epoch=Epoch(record.task.epoch + 1))
    next_epoch = replace(record, task=task)
    here = Definitions(registry, next_epoch)
    if task.direction is Direction.DO and all(step.settled for step in record.steps):
        return here.lack_of_answer()
    looks = [here.look_at(name) for name in (*ready_steps(next_epoch), *children_to_reach(next_epoch))]
    missing = [look for look in looks if isinstance(look, CannotStart) and look.parks]
    return missing[0] if missing and len(missing) == len(looks) else None


def is_new(lasting: str, recorded: str | None) -> bool:
    """Tell whether a task is parked for another reason by now; what an exception says may vary each time."""
    return not (recorded or "").startswith(bounded(lasting, MAX_ERROR_BYTES))
