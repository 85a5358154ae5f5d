"""What operators do to a task: it runs again, or it is undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus

from functions.operations.tasks.finding import Tasks
from functions.pattern.definition import Json, Registry
from functions.pattern.errors import PermanentError
from functions.pattern.events import (
    Cancelled,
    FoundDone,
    FoundNotDone,
    OperatorAction,
    OperatorAnswer,
    Resubmitted,
    UndoRequested,
)
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.planning import CannotStart
from functions.pattern.ports import Agent, Ports, ReadingAgent
from functions.pattern.readiness import Definitions
from functions.pattern.ready import ready_steps
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.requests import result_bytes
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Changed, Stored
from functions.pattern.transitions import apply
from functions.telemetry.spans import current_traceparent
from functions.telemetry.tasks import decision_span
from functions.web.problems import FieldFault, ProblemError

#: What an action is called in traces.
_NAMES = {Resubmitted: "resubmit", UndoRequested: "undo"}

#: Why a task does not take an action, as operators are told.
_REFUSED = {
    RefusalReason.STALE_EPOCH: "The task has gone on meanwhile: see how it stands now.",
    RefusalReason.NOT_IN_ERROR: "The task is not in Error, and takes this only there.",
    RefusalReason.OUTCOME_AWAITED: "A step that must not be repeated is running: its outcome comes first.",
    RefusalReason.OUTCOME_UNKNOWN: "The outcome of a step is unknown: first say whether it was done.",
    RefusalReason.KNOWN_DONE: "A step is known to be done: give its result, or have the task undone.",
    RefusalReason.NOT_IN_QUESTION: "Whether this step was done is not in question.",
    RefusalReason.FINISHED: "The task is Compensated already: nothing is left to cancel.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who asks for something, and why; `epoch` is the one in which they saw the task, None for any."""

    who: str
    reason: str
    epoch: Epoch | None = None


class Actions:
    """Operators' actions. `start_within` is in seconds: by then a Scheduler must have taken the task.

    The epoch that ends is kept with who ended it and why: that row is the record of the action.
    """

    def __init__(self, ports: Ports, start_within: float) -> None:
        self._tasks = Tasks(ports)
        self._store = ports.store
        self._clock = ports.clock
        self._start_within = timedelta(seconds=start_within)

    async def act(self, action: type[OperatorAction], task: TaskId, asked: Asked) -> TaskRecord:
        """Have a task run again or undone. Raises `ProblemError` 404 and 409."""
        stored = await _seen(self._tasks, task, asked)
        with decision_span(stored.record, _NAMES[action]):
            event = action(
                epoch=stored.record.task.epoch,
                who=asked.who,
                reason=asked.reason,
                start_by=self._clock.now() + self._start_within,
                traceparent=current_traceparent(),
            )
            outcome = await self._store.change(task, event, read=stored)
        return _changed(outcome)

    async def cancel(self, task: TaskId, asked: Asked) -> TaskRecord:
        """Have a task undone, whatever it does now. Raises `ProblemError` 404 and 409."""
        stored = await _seen(self._tasks, task, asked)
        with decision_span(stored.record, "cancel"):
            event = Cancelled(
                who=asked.who,
                reason=asked.reason,
                by_operator=True,
                start_by=self._clock.now() + self._start_within,
                traceparent=current_traceparent(),
            )
            outcome = await self._store.change(task, event, read=stored)
        return _changed(outcome)


class Answers:
    """What operators found out about steps whose outcome was unknown.

    `agents` are those that are known here, by name; `start_within` is in seconds.
    """

    def __init__(
        self, ports: Ports, registry: Registry, agents: Mapping[str, Agent], start_within: float
    ) -> None:
        self._tasks = Tasks(ports)
        self._store = ports.store
        self._clock = ports.clock
        self._registry = registry
        self._agents = agents
        self._start_within = timedelta(seconds=start_within)

    async def done(self, task: TaskId, step: StepName, result: Json, asked: Asked) -> TaskRecord:
        """Complete a step that was done, with its result. Raises `ProblemError` 404, 409 and 422."""
        stored = await self._seen(task, step, asked)
        event = FoundDone(
            epoch=stored.record.task.epoch,
            step=step,
            result=self._written(stored.record, step, result),
            who=asked.who,
            reason=asked.reason,
            start_by=self._clock.now() + self._start_within,
            traceparent=current_traceparent(),
        )
        self._check(stored.record, event)
        return await self._tell(stored, event)

    async def not_done(self, task: TaskId, step: StepName, asked: Asked) -> TaskRecord:
        """Have a step run that was not done. Raises `ProblemError` 404 and 409."""
        stored = await self._seen(task, step, asked)
        event = FoundNotDone(
            epoch=stored.record.task.epoch,
            step=step,
            who=asked.who,
            reason=asked.reason,
            start_by=self._clock.now() + self._start_within,
            traceparent=current_traceparent(),
        )
        return await self._tell(stored, event)

    async def _seen(self, task: TaskId, step: StepName, asked: Asked) -> Stored:
        """Find a task that is as it was seen, and has the step. Raises `ProblemError` 404 and 409."""
        stored = await _seen(self._tasks, task, asked)
        steps = [each.name for each in stored.record.steps]
        if step not in steps:
            text = f"There is no step '{step}' in this task; its steps are {', '.join(steps)}."
            raise ProblemError(HTTPStatus.NOT_FOUND, text)
        return stored

    def _written(self, record: TaskRecord, step: StepName, result: Json) -> bytes:
        """Write a result as the step's Agent would have given it, if that Agent is known here."""
        agent = self._agents.get(record.step(step).shape.agent)
        try:
            return result_bytes(agent.read(result) if isinstance(agent, ReadingAgent) else result)
        except PermanentError as unusable:
            raise _unusable(str(unusable)) from None

    def _check(self, record: TaskRecord, event: FoundDone) -> None:
        """Refuse a result of which what follows can't be made, or not here: it could not be taken back."""
        after = apply(record, event, self._clock.now())
        if isinstance(after, Refused):
            return
        claimed = replace(after, task=replace(after.task, process_state=ProcessState.PROCESSING))
        here = Definitions(self._registry, claimed)
        lack = here.lack_of_answer()
        for name in ready_steps(claimed):
            look = here.look_at(name)
            if isinstance(look, CannotStart) and not look.parks:
                raise _unusable(f"what follows can't be made of it: {look.reason}")
            if isinstance(look, CannotStart):
                lack = lack or look
        if lack is not None:
            raise ProblemError(HTTPStatus.CONFLICT, f"{lack.reason}: answer where it is.")

    async def _tell(self, stored: Stored, event: OperatorAnswer) -> TaskRecord:
        with decision_span(stored.record, "answer"):
            outcome = await self._store.change(stored.record.order.task, event, read=stored)
        return _changed(outcome)


async def _seen(tasks: Tasks, task: TaskId, asked: Asked) -> Stored:
    """Find a task that is as it was seen. Raises `ProblemError` 404, and 409 when its epoch is another."""
    stored = await tasks.find(task)
    epoch = stored.record.task.epoch
    if asked.epoch not in (None, epoch):
        text = f"The task is in epoch {epoch} now, and not in epoch {asked.epoch}."
        raise ProblemError(HTTPStatus.CONFLICT, text)
    return stored


def _changed(outcome: Changed | Refused) -> TaskRecord:
    """Give the record as it was changed. Raises `ProblemError` 409, which says why it was not."""
    if isinstance(outcome, Refused):
        text = _REFUSED.get(outcome.reason, f"The task does not take this now ({outcome.reason}).")
        raise ProblemError(HTTPStatus.CONFLICT, text)
    return outcome.record


def _unusable(reason: str) -> ProblemError:
    fault = FieldFault(field="result", reason=reason)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])
