"""The calls of Agents and their outcomes. Requests and results are JSON, times are UTC."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from pydantic_core import from_json

from functions.core.definition.step_definition import Retry
from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.core.error_texts import error_text
from functions.core.json_values import bounded
from functions.core.record import Direction, Operation, StepSpec, TaskRecord
from functions.core.task_events import OutcomeKind, StepEnded
from functions.messaging.agent_messages import AgentRequest, Finding, RequestKind, outcome_of


@dataclass(slots=True)
class Changes:
    """The requests of one start that change something.

    `open` ones are under way, or wait for a connection or an attempt. `unanswered` ones have left, and they
    have no clear answer. `is_accepted`: one was answered with success. `is_cut_off`: a wait was cancelled.
    """

    open: int = 0
    unanswered: int = 0
    is_accepted: bool = False
    is_cut_off: bool = False

    @property
    def has_begun(self) -> bool:
        """Return whether a request may have had an effect, or may still have one."""
        return self.open > 0 or self.unanswered > 0 or self.is_accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One start of a step: the request on record, and the deadline of its outcome.

    `request` is JSON, and `effect_key` is the idempotency key. `start_id` proves that an outcome belongs to
    this start; no log shows it. A call that is not `idempotent` is sent to the service once. With
    `is_look_up`, the unknown outcome of the start is looked up. `do_result` is the result of the do as JSON,
    for an undo; None if it is unknown. `retry` has the waits between attempts; None: those of the settings.
    """

    task: str
    step: str
    direction: Direction
    effect_key: str
    request: str
    complete_by: datetime
    start_id: str = field(repr=False)
    epoch: int
    idempotent: bool
    is_look_up: bool = False
    do_result: str | None = None
    retry: Retry | None = None
    changes: Changes = field(default_factory=Changes, repr=False, compare=False)

    def ended(self, outcome: CallOutcome) -> StepEnded:
        """Return the outcome as an event of the task. The result of an undo is not recorded."""
        result = error = None
        if outcome.kind is not OutcomeKind.DONE:
            error = f"find: {outcome.text}" if self.is_look_up else outcome.text
        elif self.direction is Direction.DO:
            result = outcome.text
        return StepEnded(
            epoch=self.epoch,
            step=self.step,
            direction=self.direction,
            start_id=self.start_id,
            kind=outcome.kind,
            result=result,
            error=error,
            has_unanswered=outcome.has_unanswered,
            is_look_up=self.is_look_up,
        )

    def to_request(self) -> AgentRequest:
        """Return the message to an Agent behind a queue."""
        return AgentRequest(
            schema_version=1,
            task_id=self.task,
            step=self.step,
            direction=self.direction,
            epoch=self.epoch,
            start_id=self.start_id,
            kind=RequestKind.FIND if self.is_look_up else RequestKind.CARRY_OUT,
            effect_key=self.effect_key,
            complete_by=self.complete_by,
            idempotent=self.idempotent,
            request=from_json(self.request),
            result=None if self.do_result is None else from_json(self.do_result),
        )


@dataclass(frozen=True, slots=True)
class LookUpAnswer:
    """The answer of a look-up. `result` is the result of the step if it was done."""

    finding: Finding
    result: str = "{}"


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call or of a look-up; `text` is the result or the error."""

    kind: OutcomeKind
    text: str
    has_unanswered: bool = False


class Agent(Protocol):
    """Calls one remote service.

    `fences_starts`: after `find` returned "not done", no request with this start id takes effect. An Agent
    without that guarantee can only prove that a step was done.
    """

    fences_starts: bool

    async def carry_out(self, call: Call) -> str:
        """Do or undo a step until its deadline; return the result.

        Raises `RefusedError`, `NotBegunError` and `UnusableResultError`. After any other error the outcome is
        unknown.
        """

    async def find(self, call: Call) -> LookUpAnswer:
        """Look up whether a step was done. After any error the outcome stays unknown."""


class RefusedError(Exception):
    """The service refused permanently.

    `has_unanswered`: another request of this start had no answer, and may still take effect. The outcome of a
    call that is not `idempotent` is unknown then.
    """

    def __init__(self, text: str, *, has_unanswered: bool = False) -> None:
        super().__init__(text)
        self.has_unanswered = has_unanswered


class NotBegunError(Exception):
    """The service was not called, or it is certain that nothing was done and nothing will be."""


class NothingSentError(asyncio.CancelledError):
    """A call was cancelled before any of its requests left. At its deadline it has not begun."""


class UnusableResultError(Exception):
    """The service did it, but its result cannot be used. An undo is then repeated."""


async def carry_out(agent: Agent, call: Call, now: datetime) -> CallOutcome:
    """Carry out a call until its deadline, and return the outcome. It raises nothing."""
    try:
        return CallOutcome(OutcomeKind.DONE, await _within(call, now, agent.carry_out(call)))
    except RefusedError as error:
        kind = OutcomeKind.REFUSED if call.idempotent or not error.has_unanswered else OutcomeKind.UNKNOWN
        return CallOutcome(kind, bounded(str(error)), error.has_unanswered and call.idempotent)
    except NotBegunError as error:
        return CallOutcome(OutcomeKind.NOT_BEGUN, bounded(str(error)))
    except UnusableResultError as error:
        kind = OutcomeKind.DONE_WITHOUT_RESULT if call.direction is Direction.DO else OutcomeKind.UNKNOWN
        return CallOutcome(kind, bounded(str(error)))
    except Exception as error:  # noqa: BLE001 - an Agent may raise anything
        if isinstance(error, TimeoutError) and isinstance(error.__cause__, NothingSentError):
            return CallOutcome(OutcomeKind.NOT_BEGUN, "no request left by the deadline")
        return CallOutcome(OutcomeKind.UNKNOWN, error_text(error))


async def look_up(agent: Agent, call: Call, now: datetime) -> CallOutcome:
    """Look up the outcome of a call until its deadline, and return it. It raises nothing."""
    try:
        found = await _within(call, now, agent.find(call))
        kind = outcome_of(found.finding, fences_starts=agent.fences_starts)
        return CallOutcome(kind, found.result if kind is OutcomeKind.DONE else str(found.finding))
    except Exception as error:  # noqa: BLE001 - an Agent may raise or return anything
        return CallOutcome(OutcomeKind.UNKNOWN, error_text(error))


async def _within[ResultT](call: Call, now: datetime, work: Awaitable[ResultT]) -> ResultT:
    """Await the work of an Agent until the deadline. A future that it cancels is its error."""
    try:
        async with asyncio.timeout((call.complete_by - now).total_seconds()):
            return await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("the Agent was interrupted") from error


def call_of(
    record: TaskRecord, spec: StepSpec, operation: Operation, until: datetime, registry: WorkflowRegistry
) -> Call:
    """Return the call or the look-up of a start that is on record, with its deadline `until`."""
    step, direction = record.step(spec.name), record.direction
    generation = step.generation(direction)
    workflow = registry.find(record.order.workflow, record.order.version)
    defined = None if workflow is None else workflow.steps.get(spec.step)
    return Call(
        task=record.order.task,
        step=spec.name,
        direction=direction,
        effect_key=record.order.effect_key(spec.name, direction, generation),
        request=operation.request or "{}",
        complete_by=until,
        start_id=operation.start_id or "",
        epoch=record.epoch,
        idempotent=not spec.must_not_repeat(direction),
        is_look_up=operation.find_by is not None,
        do_result=step.dispatched[generation].result if direction is Direction.UNDO else None,
        retry=None if defined is None else defined.retry,
    )
