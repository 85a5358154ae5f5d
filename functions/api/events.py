"""The routes by which callers tell events that steps wait for."""

# ruff: noqa: I002 - FastAPI needs the bodies' models themselves, which are no strings then

import re
from typing import Annotated, Any

from fastapi import Body, FastAPI, Path, Request
from pydantic import BaseModel

from functions.pattern.definition import NAME_PATTERN, Registry, Workflow
from functions.pattern.identity import StepName, TaskId
from functions.pattern.states import StepState, Way
from functions.web.access import caller_of
from functions.web.events import Events
from functions.web.openapi import documented_answer
from functions.web.problems import documented_problems

#: The paths of events: which role is needed, the step says.
EVENT_PATHS = re.compile(rf"/api/{NAME_PATTERN}/[^/]+/events/[^/]+")

StepInPath = Annotated[
    str, Path(alias="step", pattern=f"^{NAME_PATTERN}$", description="The step that waits for the event")
]


class EventTaken(BaseModel):
    """The event is recorded; it is the step's result as soon as the step has begun."""

    id: str
    step: str
    state: StepState


def are_awaited(registry: Registry, workflow: Workflow) -> bool:
    """Tell whether any version of a workflow waits for events."""
    versions = (each for each in registry if each.name == workflow.name)
    return any(step.via is Way.EVENT for each in versions for step in each.steps)


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
        caller = caller_of(request)
        taken = await events.take(workflow.name, TaskId(task), StepName(step), body, caller)
        return EventTaken(id=task, step=taken.name, state=taken.state)
