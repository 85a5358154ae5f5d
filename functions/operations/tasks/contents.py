"""What a task holds, as operators are shown it: read by itself, not with the view that is polled."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from functions.operations.action_requests import ShownText, StepPath, TaskIdPath, nothing_of, text_of
from functions.operations.tasks.listing import Tasks
from functions.pattern.contents import Contents, NotShownError
from functions.pattern.definition import Registry
from functions.pattern.event_bodies import schema_of
from functions.pattern.identity import StepName, TaskId
from functions.pattern.readiness import Definitions, NotDeployedError
from functions.pattern.states import Direction, StepState, Way
from functions.pattern.step_records import StepRecord
from functions.web.problems import ProblemError, documented_problems


class TaskContents(BaseModel):
    """What the caller sent, by the model of the task's version; its secret fields are hidden."""

    payload: ShownText


class StepContents(BaseModel):
    """What a step's Agent is asked, and what it gave: null where there is none, as of a step that waits.

    Requests are made anew, by the definition that is deployed here. `undo_request` is there when the step
    was undone, by a request of its own. Of an event's step, `event` is the JSON Schema of what is told to it.
    """

    request: ShownText | None
    undo_request: ShownText | None
    result: ShownText | None
    event: ShownText | None


def add_contents(router: APIRouter, tasks: Tasks, registry: Registry) -> None:
    """Add the requests for them to the operators' router."""

    async def contents_of(task: str) -> Contents:
        return Contents(registry, (await tasks.find(TaskId(task))).record)

    @router.get("/tasks/{task_id}/contents", responses=documented_problems(404, 422, 503))
    async def show_contents(task_id: TaskIdPath) -> TaskContents:
        """Show a task's payload, without its secret fields."""
        contents = await contents_of(task_id)
        return TaskContents(payload=_shown(lambda: contents.payload))

    @router.get("/tasks/{task_id}/steps/{step}/contents", responses=documented_problems(404, 422, 503))
    async def show_step(task_id: TaskIdPath, step: StepPath) -> StepContents:
        """Show a step's request and result, without what is secret in the payload."""
        contents = await contents_of(task_id)
        recorded = next((each for each in contents.record.steps if each.name == step), None)
        if recorded is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "The task has no step of this name.")
        return _step(contents, recorded)


def _step(contents: Contents, step: StepRecord) -> StepContents:
    name = StepName(step.name)
    request = undo = None
    if not step.shape.via.asks or step.state is StepState.SKIPPED:
        pass
    elif step.started_at is None:
        request = nothing_of("It is made when the step begins.")
    else:
        request = _shown(lambda: contents.request(name, Direction.DO))
        if step.state in {StepState.UNDOING, StepState.UNDONE}:
            undo = _shown(lambda: contents.request(name, Direction.UNDO))
    return StepContents(
        request=request,
        undo_request=None if undo == request else undo,
        result=None if step.known_result is None else _shown(lambda: contents.result(name)),
        event=_shown(lambda: _event(contents, name)) if step.shape.via is Way.EVENT else None,
    )


def _event(contents: Contents, step: StepName) -> Any:
    try:
        schema = schema_of(Definitions(contents.registry, contents.record).event_model(step))
    except NotDeployedError as lack:
        raise NotShownError(str(lack)) from None
    if schema is None:
        raise NotShownError("its model has no JSON schema")
    return schema


def _shown(content: Callable[[], Any]) -> ShownText:
    try:
        return text_of(json.dumps(content(), ensure_ascii=False, indent=2))
    except NotShownError as reason:
        return nothing_of(f"{reason}.")
