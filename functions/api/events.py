"""The routes by which callers look at events that steps wait for, and tell them."""

# ruff: noqa: I002 - FastAPI needs the bodies' models themselves, which are no strings then

import re
from datetime import datetime
from typing import Annotated, Any

from fastapi import Body, FastAPI, Path, Request
from pydantic import BaseModel, ConfigDict

from functions.api.models import TaskInPath
from functions.pattern.definition import NAME_PATTERN, Workflow
from functions.pattern.event_bodies import schema_of
from functions.pattern.identity import StepName, TaskId
from functions.pattern.states import StepState
from functions.web.access import caller_of
from functions.web.events import Events
from functions.web.problems import documented_problems

#: The paths of events: which role is needed, the step says.
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
    dict[str, Any], Body(description="As the step's model has it", examples=[{"approved": True}])
]


class EventTaken(BaseModel):
    """The event is recorded; it is the step's result as soon as the step has begun."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"id": "my-id-1", "step": "approve", "state": "Completed"}]}
    )

    id: str
    step: str
    state: StepState


class AwaitedEvent(BaseModel):
    """What the bearer of a step's role is shown: the task's id, and this step alone; times are UTC.

    `body` is the JSON Schema of what can be told, null while the task's version is not deployed here, and
    where its model has none.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "my-id-1",
                    "step": "approve",
                    "role": "Operator",
                    "state": "Running",
                    "since": "2026-11-21T12:00:00Z",
                    "complete_by": "2026-11-24T12:00:00Z",
                    "body": {"type": "object", "properties": {"approved": {"type": "boolean"}}},
                }
            ]
        }
    )

    id: str
    step: str
    role: str
    state: StepState
    since: datetime | None
    complete_by: datetime | None
    body: dict[str, Any] | None


def add_events(app: FastAPI, workflow: Workflow, events: Events) -> None:
    """Add the events' routes, to every workflow: a task of another version may wait for an event."""
    path = f"/api/{workflow.resource}/{{id}}/events/{{step}}"

    @app.get(
        path,
        tags=[workflow.resource],
        responses=documented_problems(404, 422, 503),
        description=f"Show a step of this {workflow.noun} that waits for an event, and nothing else\n\n"
        "For whoever has the step's role, and whoever may see all of it.",
    )
    async def show(task: TaskInPath, step: StepInPath, request: Request) -> AwaitedEvent:
        found, model = await events.show(workflow, TaskId(task), StepName(step), caller_of(request))
        return AwaitedEvent(
            id=task,
            step=found.name,
            role=found.shape.role or "",
            state=found.state,
            since=found.started_at,
            complete_by=found.complete_by,
            body=None if model is None else schema_of(model),
        )

    @app.post(
        path,
        tags=[workflow.resource],
        responses=documented_problems(400, 404, 409, 413, 415, 422, 503),
        description=f"Tell an event that a step of this {workflow.noun} waits for, once\n\nThe same again"
        " gets the same answer; another is refused with 409.",
    )
    async def tell(task: TaskInPath, step: StepInPath, body: EventBody, request: Request) -> EventTaken:
        taken = await events.take(workflow, TaskId(task), StepName(step), body, caller_of(request))
        return EventTaken(id=task, step=taken.name, state=taken.state)
