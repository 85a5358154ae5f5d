"""What operators do to a task: it runs again, is undone or parked, or is told what came of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import TypedDict

from pydantic import ValidationError

from functions.pattern.cannot_start import CannotStart
from functions.pattern.completion import complete
from functions.pattern.definition import Json, Registry
from functions.pattern.errors import PermanentError
from functions.pattern.event_bodies import check_body
from functions.pattern.events import (
    Cancelled,
    FoundDone,
    FoundNotDone,
    OperatorEvent,
    ParkingEvent,
    Resubmitted,
    UndoRequested,
)
from functions.pattern.faults import first_fault
from functions.pattern.identity import StepName
from functions.pattern.inputs import needed
from functions.pattern.operator_events import ParkRequested, ResultGiven, Unparked
from functions.pattern.ports import Agent, Ports, ReadingAgent
from functions.pattern.readiness import Definitions, NotDeployedError, lack_of
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.requests import result_bytes
from functions.pattern.states import ProcessState, Way
from functions.pattern.step_definition import KNOWN_ROLES
from functions.pattern.step_records import StepRecord
from functions.pattern.store_ports import Stored
from functions.pattern.transitions import apply
from functions.telemetry.fields import record_action
from functions.telemetry.spans import current_traceparent, decision_span
from functions.web.callers import Caller
from functions.web.events import Events
from functions.web.problems import FieldFault, ProblemError


class GivenResults:
    """Reads and checks results; `agents` are those that are known here, by name."""

    def __init__(self, registry: Registry, agents: Mapping[str, Agent]) -> None:
        self._registry = registry
        self._agents = agents

    def written(self, record: TaskRecord, step: StepRecord, result: Json) -> bytes:
        """Write a result as the step's Agent, or its event, would have. Raises `ProblemError` 409 and 422."""
        agent = self._agents.get(step.shape.agent)
        try:
            written = result_bytes(agent.read(result) if isinstance(agent, ReadingAgent) else result)
        except PermanentError as unusable:
            raise _unusable(str(unusable)) from None
        if step.shape.via is Way.EVENT:
            self._check_event(record, step.name, written)
        return written

    def check(self, record: TaskRecord, event: FoundDone | ResultGiven, now: datetime) -> None:
        """Refuse a result that the following steps can't use, or not here. Raises `ProblemError`."""
        after = apply(record, event, now)
        if isinstance(after, Refused):
            return
        if after.task.process_state is ProcessState.PROCESSED:
            self._check_answer(after)
            return
        claimed = replace(after, task=replace(after.task, process_state=ProcessState.PROCESSING))
        here = Definitions(self._registry, claimed)
        lack = here.lack_of_answer()
        given = record.step(event.step).shape.step
        for name in ready_steps(claimed):
            look = here.look_at(name)
            if not isinstance(look, CannotStart):
                continue
            if look.parks:
                lack = lack or look
            elif given in needed(claimed, name):
                raise _unusable(f"what follows can't be made of it: {look.reason}")
        if lack is not None:
            raise _answered_there(lack.reason)

    def _check_answer(self, record: TaskRecord) -> None:
        task = complete(self._registry, record).task
        if task.is_parked:
            raise _answered_there(task.last_error or "")
        if task.last_error is not None:
            raise _unusable(f"what follows can't be made of it: {task.last_error}")

    def _check_event(self, record: TaskRecord, step: StepName, written: bytes) -> None:
        try:
            check_body(Definitions(self._registry, record).event_model(step), written)
        except ValidationError as error:
            raise _unusable(": ".join(filter(None, first_fault(error)))) from None
        except NotDeployedError as lack:
            raise _answered_there(lack_of(lack).reason) from None


def _unusable(reason: str) -> ProblemError:
    fault = FieldFault(field="result", reason=reason)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])


def _answered_there(reason: str) -> ProblemError:
    return ProblemError(HTTPStatus.CONFLICT, f"{reason}: answer where it is.")


class ActionName(StrEnum):
    """What an operator can do to a task; it is named so in addresses and traces."""

    RESUBMIT = "resubmit"
    UNDO = "undo"
    CANCEL = "cancel"
    PARK = "park"
    UNPARK = "unpark"
    SKIP = "skip"
    DONE = "done"
    NOT_DONE = "not-done"
    EVENT = "event"

    @property
    def needs_step(self) -> bool:
        """Tell whether it is about one step."""
        return self in _OF_A_STEP

    @property
    def content(self) -> str | None:
        """Name the field of what it gives besides, if it gives anything."""
        return _CONTENTS.get(self)


_CONTENTS = {ActionName.SKIP: "result", ActionName.DONE: "result", ActionName.EVENT: "body"}
_OF_A_STEP = frozenset({*_CONTENTS, ActionName.NOT_DONE})

_REFUSED = {
    RefusalReason.STALE_EPOCH: "The task has gone on meanwhile: see how it stands now.",
    RefusalReason.NOT_IN_ERROR: "The task is not in Error, and takes this only there.",
    RefusalReason.OUTCOME_AWAITED: "A step that must not be repeated is running: its outcome comes first.",
    RefusalReason.OUTCOME_UNKNOWN: "The outcome of a step is unknown: first say whether it was done.",
    RefusalReason.KNOWN_DONE: "A step is known to be done: give its result, or have the task undone.",
    RefusalReason.NOT_IN_QUESTION: "Whether this step was done is not in question.",
    RefusalReason.FINISHED: "The task is Compensated already: nothing is left to cancel.",
    RefusalReason.NOT_UNDER_WAY: "The task has ended, or is in Error: nothing of it runs.",
    RefusalReason.PARKED_BY_OPERATOR: "The task is parked already.",
    RefusalReason.NOT_PARKED: "No operator has parked the task.",
    RefusalReason.NOT_FAILED: "This step has not failed: nobody can give its result in its place.",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for: the `content` is a step's result, or its event."""

    action: ActionName
    step: StepName | None = None
    content: Json | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for something, and why."""

    caller: Caller
    reason: str


class _Common(TypedDict):
    who: str
    reason: str
    start_by: datetime
    traceparent: str | None


class Actions:
    """Operators' actions, recorded with the closed epoch, or an event's step. `start_within` in seconds."""

    def __init__(self, ports: Ports, results: GivenResults, events: Events, start_within: float) -> None:
        self._store = ports.store
        self._clock = ports.clock
        self._results = results
        self._events = events
        self._start_within = timedelta(seconds=start_within)

    async def take(self, stored: Stored, wish: Wish, asked: Asked) -> TaskRecord:
        """Do to a task what is asked for, as it was read. Raises `ProblemError`, `RequestValidationError`."""
        done = await self._taken(stored, wish, asked)
        step = "" if wish.step is None else f"/steps/{wish.step}"
        record_action(asked.caller.name, wish.action, f"tasks/{done.order.task}{step}")
        return done

    async def _taken(self, stored: Stored, wish: Wish, asked: Asked) -> TaskRecord:
        record = stored.record
        if wish.action is ActionName.EVENT:
            name, body = _step(record, wish).name, wish.content or {}
            return await self._events.tell(stored, name, body, asked.caller, asked.reason)
        with decision_span(record, wish.action):
            event = self._event(record, wish, asked)
            outcome = await self._store.change(record.order.task, event, read=stored)
        if isinstance(outcome, Refused):
            text = _REFUSED.get(outcome.reason, f"The task does not take this now ({outcome.reason}).")
            raise ProblemError(HTTPStatus.CONFLICT, text)
        return outcome.record

    def _event(
        self, record: TaskRecord, wish: Wish, asked: Asked
    ) -> OperatorEvent | ParkingEvent | Cancelled:
        common = _Common(
            who=asked.caller.name,
            reason=asked.reason,
            start_by=self._clock.now() + self._start_within,
            traceparent=current_traceparent(),
        )
        if wish.action is ActionName.CANCEL:
            return Cancelled(by_operator=True, seen=record.task, **common)
        if wish.action.needs_step:
            return self._of_step(record, wish, asked.caller, common)
        return _WHOLE[wish.action](epoch=record.task.epoch, **common)

    def _of_step(self, record: TaskRecord, wish: Wish, caller: Caller, common: _Common) -> OperatorEvent:
        step, epoch = _step(record, wish), record.task.epoch
        role = step.shape.role
        if wish.action is ActionName.SKIP and role is not None and role not in KNOWN_ROLES:
            caller.check(role)  # in a submitter's place, any operator may
        if wish.action is ActionName.NOT_DONE:
            return FoundNotDone(epoch=epoch, step=step.name, **common)
        written = self._results.written(record, step, wish.content or {})
        kind = FoundDone if wish.action is ActionName.DONE else ResultGiven
        event = kind(epoch=epoch, step=step.name, result=written, **common)
        self._results.check(record, event, self._clock.now())
        return event


_WHOLE: dict[ActionName, type[Resubmitted | UndoRequested | ParkRequested | Unparked]] = {
    ActionName.RESUBMIT: Resubmitted,
    ActionName.UNDO: UndoRequested,
    ActionName.PARK: ParkRequested,
    ActionName.UNPARK: Unparked,
}


def _step(record: TaskRecord, wish: Wish) -> StepRecord:
    step = next((each for each in record.steps if each.name == wish.step), None)
    if step is None:
        names = ", ".join(each.name for each in record.steps)
        text = f"There is no step '{wish.step}' in this task; its steps are {names}."
        raise ProblemError(HTTPStatus.NOT_FOUND, text)
    return step
