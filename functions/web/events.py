"""Shows and records events that steps wait for: each is told once, by somebody of the step's role."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from functions.pattern.definition import Json, Registry, Workflow
from functions.pattern.event_bodies import check_body
from functions.pattern.identity import StepName, TaskId
from functions.pattern.plain_reasons import plain_reason
from functions.pattern.ports import Ports
from functions.pattern.readiness import Definitions, NotDeployedError
from functions.pattern.records import MAX_RESULT_BYTES, TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.step_records import StepRecord
from functions.pattern.store_ports import Stored
from functions.pattern.transitions import apply
from functions.pattern.wait_events import EventReceived, TurnedAway
from functions.telemetry.spans import decision_span
from functions.web.callers import Caller
from functions.web.problems import ProblemError, faults_in

_log = logging.getLogger(__name__)

_REFUSED = {
    RefusalReason.OTHER_EVENT: "Another event was told for this step before.",
    RefusalReason.FINISHED: "It has ended, or is being undone.",
    RefusalReason.DECIDED: "It is about to be undone, or held.",
}


class Events:
    """Shows and records events; what follows must have started within so many seconds."""

    def __init__(self, ports: Ports, registry: Registry, start_within: float) -> None:
        self._ports = ports
        self._registry = registry
        self._start_within = timedelta(seconds=start_within)

    async def show(
        self, workflow: Workflow, task: TaskId, name: StepName, caller: Caller
    ) -> tuple[StepRecord, type[BaseModel] | None]:
        """Return a step that waits for an event, and the event's model, if any. Raises `ProblemError` 404."""
        record = (await self._stored(workflow, task)).record
        step = _seen_step(record, name, caller)
        try:
            return step, Definitions(self._registry, record).event_model(name)
        except NotDeployedError:
            return step, None

    async def take(
        self, workflow: Workflow, task: TaskId, name: StepName, body: Json, caller: Caller
    ) -> StepRecord:
        """Record an event. Raises `ProblemError` 404, and as `tell` does."""
        return (await self.tell(await self._stored(workflow, task), name, body, caller)).step(name)

    async def tell(
        self, stored: Stored, name: StepName, body: Json, caller: Caller, reason: str | None = None
    ) -> TaskRecord:
        """Record an event. Raises `ProblemError` 403, 404, 409, 413, 503, `RequestValidationError`."""
        step = _step_for(stored.record, name, caller)
        written = json.dumps(body, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
        event = EventReceived(
            step=name,
            body=written,
            who=caller.name,
            reason=reason,
            start_by=self._ports.clock.now() + self._start_within,
        )
        try:
            self._check(stored.record, name, written)
        except NotDeployedError as lack:
            return await self._as_it_stands(stored, event, lack)
        with decision_span(stored.record, "event"):
            outcome = await self._ports.store.change(stored.record.order.task, event, read=stored)
        if isinstance(outcome, Refused):
            raise _refused(outcome, step)
        return outcome.record

    async def _as_it_stands(self, stored: Stored, event: EventReceived, lack: NotDeployedError) -> TaskRecord:
        """Answer a repeated or late event. Raises `ProblemError` 409, and 503 for one that would count."""
        record = stored.record
        outcome = apply(record, event, self._ports.clock.now())
        if isinstance(outcome, Refused):
            raise _refused(outcome, record.step(event.step))
        if outcome is not record:
            if record.step(event.step).turned_away_at is None:
                text = "task %s: the event of step %s can't be told here: %s"
                _log.warning(text, record.order.task, event.step, lack)
                await self._ports.store.change(record.order.task, TurnedAway(step=event.step), read=stored)
            text = "Its version of the workflow is not deployed here: try again later."
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, text) from lack
        return record

    async def _stored(self, workflow: Workflow, task: TaskId) -> Stored:
        stored = await self._ports.store.load(task)
        if stored is None or stored.record.order.workflow != workflow.name:
            raise _nothing_here()
        return stored

    def _check(self, record: TaskRecord, step: StepName, body: bytes) -> None:
        """Check a body by its model. Raises `NotDeployedError` and, for the caller, as `tell` does."""
        if len(body) > MAX_RESULT_BYTES:
            text = f"An event holds at most {MAX_RESULT_BYTES} bytes."
            raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        try:
            check_body(Definitions(self._registry, record).event_model(step), body)
        except ValidationError as error:
            raise RequestValidationError(faults_in("body", error)) from None


def _seen_step(record: TaskRecord, name: StepName, caller: Caller) -> StepRecord:
    """Find the step, which its role's bearers see, and whoever sees the task."""
    step = next((each for each in record.steps if each.name == name), None)
    if step is None or step.shape.role is None:
        raise _nothing_here()
    submitter = record.order.submitter
    if not caller.may_see(submitter) and not caller.bears(step.shape.role, submitter):
        raise _nothing_here()
    return step


def _step_for(record: TaskRecord, name: StepName, caller: Caller) -> StepRecord:
    """Find the step, whose role the caller must have: a submitter of its own tasks only."""
    step = _seen_step(record, name, caller)
    role = step.shape.role
    if role is None:
        raise _nothing_here()
    caller.check(role)
    if not caller.bears(role, record.order.submitter):
        raise ProblemError(HTTPStatus.FORBIDDEN, "Its submitter alone can tell this.")
    return step


def _nothing_here() -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, "No step that waits for an event is recorded here (yet).")


def _refused(refused: Refused, step: StepRecord) -> ProblemError:
    text = _REFUSED.get(refused.reason, f"This can't be done now ({refused.reason}).")
    if refused.reason is RefusalReason.STEP_ENDED:
        text = f"The step has ended: {plain_reason(step.error) or 'it was not needed, or went on without'}."
    return ProblemError(HTTPStatus.CONFLICT, text)
