"""The operators' routes: tasks, their history, what can be done about them, and the summary."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, StringConstraints

from functions.http.problems import FieldFault, ProblemError, documented_problems
from functions.operations.actions import Actions
from functions.operations.cursor import CursorError, read_cursor
from functions.operations.summary import Overview, Summary
from functions.operations.tasks import Tasks
from functions.operations.views import ActionTaken, TaskLine, TaskPage, TaskView
from functions.pattern.identity import TASK_ID_PATTERN, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState

#: Who acts, as long as a function key is all that operators show.
_KEY_HOLDER = "operator"

_ACTION_PROBLEMS = documented_problems(400, 404, 409, 413, 415, 422, 503)

TaskIdPath = Annotated[str, Path(pattern=TASK_ID_PATTERN, description="The task's id, which is its order's")]
CursorQuery = Annotated[str | None, Query(max_length=2048, description="From the page before")]


class Reason(BaseModel):
    """Why an operator acts; it is kept with the action."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


def operator_routes(tasks: Tasks, actions: Actions, overview: Overview) -> APIRouter:
    """Make the routes."""
    router = APIRouter(prefix="/api/ops", tags=["operations"])

    @router.get("/tasks", responses=documented_problems(422, 503))
    async def list_tasks(state: ProcessState = ProcessState.ERROR, cursor: CursorQuery = None) -> TaskPage:
        """List the tasks of one state, page by page."""
        try:
            page = await tasks.page(read_cursor(cursor, state, tasks.shards))
        except CursorError:
            fault = FieldFault(field="cursor", reason="not a cursor of this list")
            raise ProblemError(
                HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault]
            ) from None
        following = None if page.next is None else page.next.text()
        return TaskPage(tasks=[TaskLine.of(record) for record in page.records], cursor=following)

    @router.get("/tasks/{task_id}", responses=documented_problems(404, 422, 503))
    async def show_task(task_id: TaskIdPath) -> TaskView:
        """Show a task with its steps and its history."""
        return TaskView.of((await tasks.find(TaskId(task_id))).record)

    @router.post("/tasks/{task_id}/resubmit", status_code=HTTPStatus.ACCEPTED, responses=_ACTION_PROBLEMS)
    async def resubmit(task_id: TaskIdPath, body: Reason) -> ActionTaken:
        """Run a task in `Error` again, from where it stopped."""
        return _taken(await actions.resubmit(TaskId(task_id), who=_KEY_HOLDER, reason=body.reason))

    @router.post("/tasks/{task_id}/undo", status_code=HTTPStatus.ACCEPTED, responses=_ACTION_PROBLEMS)
    async def undo(task_id: TaskIdPath, body: Reason) -> ActionTaken:
        """Undo everything that a task in `Error` has dispatched."""
        return _taken(await actions.undo(TaskId(task_id), who=_KEY_HOLDER, reason=body.reason))

    @router.get("/summary", responses=documented_problems(503))
    async def summary() -> Summary:
        """Count what is under way, overdue and in `Error`, and show the Supervisor's last sweep."""
        return await overview.read()

    return router


def _taken(record: TaskRecord) -> ActionTaken:
    task = record.task
    return ActionTaken(id=task.order_id, epoch=task.epoch, state=task.process_state, direction=task.direction)
