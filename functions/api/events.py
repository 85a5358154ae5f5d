"""Takes events that steps wait for: each is told once, by somebody of the step's role."""

# ruff: noqa: I002 - FastAPI needs the bodies' models themselves, which are no strings then

import json
import re
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Body, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from functions.pattern.definition import NAME_PATTERN, Registry, Workflow
from functions.pattern.identity import StepName, TaskId
from functions.pattern.plain_reasons import plain_reason
from functions.pattern.ports import Ports
from functions.pattern.readiness import Definitions, NotDeployedError
from functions.pattern.records import MAX_RESULT_BYTES, StepRecord, TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import StepState, Way
from functions.pattern.wait_events import EventReceived
from functions.telemetry.tasks import decision_span
from functions.web.access import caller_of
from functions.web.callers import Caller, Role
from functions.web.openapi import documented_answer
from functions.web.problems import ProblemError, documented_problems, faults_in

#: The paths of events: which role is needed, the step says.
EVENT_PATHS = re.compile(rf"/api/{NAME_PATTERN}/[^/]+/events/[^/]+")

_REFUSED = {
    RefusalReason.OTHER_EVENT: "Another event was told for this step before.",
    RefusalReason.FINISHED: "It has ended, or is being undone.",
    RefusalReason.DECIDED: "It is about to be undone, or held.",
}

StepInPath = Annotated[
    str, Path(alias="step", pattern=f"^{NAME_PATTERN}$", description="The step that waits for the event")
]


class EventTaken(BaseModel):
    """The event is recorded; it is the step's result as soon as the step has begun."""

    id: str
    step: str
    state: StepState


class Events:
    """Records events; what follows must have started within so many seconds."""

    def __init__(self, ports: Ports, registry: Registry, start_within: float) -> None:
        self._ports = ports
        self._registry = registry
        self._start_within = timedelta(seconds=start_within)

    def are_awaited(self, workflow: Workflow) -> bool:
        """Tell whether any version of a workflow waits for events."""
        versions = (each for each in self._registry if each.name == workflow.name)
        return any(step.via is Way.EVENT for each in versions for step in each.steps)

    async def take(
        self, workflow: Workflow, task: TaskId, name: StepName, body: bytes, caller: Caller
    ) -> StepRecord:
        """Record an event as it was sent: another deployment's model may write it in another way.

        Raises `ProblemError` 403, 404, 409, 413 and 503, `RequestValidationError`.
        """
        stored = await self._ports.store.load(task)
        if stored is None or stored.record.order.workflow != workflow.name:
            raise _nothing_here()
        step = _step_for(stored.record, name, caller)
        self._check(stored.record, name, body)
        event = EventReceived(
            step=name,
            body=body,
            start_by=self._ports.clock.now() + self._start_within,
        )
        with decision_span(stored.record, "event"):
            outcome = await self._ports.store.change(task, event, read=stored)
        if isinstance(outcome, Refused):
            raise ProblemError(HTTPStatus.CONFLICT, _why(outcome.reason, step))
        return outcome.record.step(name)

    def _check(self, record: TaskRecord, step: StepName, body: bytes) -> None:
        try:
            Definitions(self._registry, record).check_event(step, body)
        except ValidationError as error:
            raise RequestValidationError(faults_in("body", error)) from None
        except NotDeployedError as lack:
            text = "Its version of the workflow is not deployed here: try again later."
            raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, text) from lack
        if len(body) > MAX_RESULT_BYTES:
            text = f"An event holds at most {MAX_RESULT_BYTES} bytes."
            raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


def _step_for(record: TaskRecord, name: StepName, caller: Caller) -> StepRecord:
    """Find the step, whose role the caller must have: a submitter of its own tasks only."""
    step = next((each for each in record.steps if each.name == name and each.shape.role is not None), None)
    if step is None or not caller.may_see(record.order.submitter):
        raise _nothing_here()
    if step.shape.role not in caller.roles:
        raise ProblemError(HTTPStatus.FORBIDDEN, f"This takes the role {step.shape.role}.")
    is_own = step.shape.role != Role.SUBMITTER or record.order.submitter == caller.name
    if not is_own:
        raise ProblemError(HTTPStatus.FORBIDDEN, "Its submitter alone can tell this.")
    return step


def _nothing_here() -> ProblemError:
    return ProblemError(HTTPStatus.NOT_FOUND, "No step that waits for an event is recorded here (yet).")


def _why(reason: RefusalReason, step: StepRecord) -> str:
    if reason is RefusalReason.STEP_ENDED:
        return f"The step has ended: {plain_reason(step.error) or 'it was not needed, or went on without'}."
    return _REFUSED.get(reason, f"This can't be done now ({reason}).")


def add_events(app: FastAPI, workflow: Workflow, events: Events) -> None:
    """Add the route by which events of a workflow's steps are told."""
    example = {"id": "my-id-1", "step": "approve", "state": "Completed"}

    @app.post(
        f"/api/{workflow.resource}/{{id}}/events/{{step}}",
        tags=[workflow.resource],
        responses=documented_answer(example) | documented_problems(400, 404, 409, 413, 415, 422, 503),
        description=f"Tell an event that a step of this {workflow.noun} waits for, once\n\nThe same again"
        " gets the same answer; another is refused with 409.",
    )
    async def tell(
        task: Annotated[str, Path(alias="id", pattern=r"^[A-Za-z0-9_-]{1,64}$")],
        step: StepInPath,
        body: Annotated[dict[str, Any], Body()],
        request: Request,
    ) -> EventTaken:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        written = text.encode(errors="surrogatepass")  # the model refuses half a character
        taken = await events.take(workflow, TaskId(task), StepName(step), written, caller_of(request))
        return EventTaken(id=task, step=taken.name, state=taken.state)
