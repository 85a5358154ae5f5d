"""The operators' routes: tasks, their history, what can be done about them, and how everything is."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, StringConstraints

from functions.operations import examples
from functions.operations.actions import Actions
from functions.operations.list_query import ListQuery
from functions.operations.overview import Overview, OverviewReader
from functions.operations.summary import Summary, SummaryReader
from functions.operations.tasks import Tasks
from functions.operations.traces import Traces
from functions.operations.views import ActionTaken, TaskLine, TaskPage, TaskView
from functions.pattern.definition import Registry
from functions.pattern.identity import TASK_ID_PATTERN, TaskId
from functions.pattern.ports import Clock
from functions.pattern.records import TaskRecord
from functions.web.access import AdmittedCaller
from functions.web.openapi import documented_answer
from functions.web.problems import documented_problems
from functions.web.same_origin import NEEDS_OWN_HEADER

_ACTION: dict[str, Any] = {
    "status_code": HTTPStatus.ACCEPTED,
    "dependencies": [NEEDS_OWN_HEADER],
    "responses": {
        **documented_answer(examples.ACTION_TAKEN, HTTPStatus.ACCEPTED),
        **documented_problems(400, 404, 409, 413, 415, 422, 503),
    },
}

TaskIdPath = Annotated[
    str,
    Path(pattern=TASK_ID_PATTERN, description="The task's id, which is its order's", examples=["order-1"]),
]


class Reason(BaseModel):
    """Why an operator acts; it is kept with the action."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"reason": "the payment service is mended"}]},
    )

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


def operator_routes(
    *,
    tasks: Tasks,
    actions: Actions,
    registry: Registry,
    clock: Clock,
    summaries: SummaryReader,
    overviews: OverviewReader,
    traces: Traces,
) -> APIRouter:
    """Make the routes."""
    router = APIRouter(prefix="/api/ops", tags=["operations"])

    @router.get("/tasks", responses=documented_answer(examples.TASK_PAGE) | documented_problems(422, 503))
    async def list_tasks(query: Annotated[ListQuery, Query()]) -> TaskPage:
        """List tasks: those of one state by time, page by page, or those whose ids have a prefix."""
        if query.prefix is not None:
            found = await tasks.named(query.prefix, query.state, query.workflow)
        else:
            found = await tasks.page(query.wanted(), query.place())
        following = None if found.next is None else found.next.text()
        lines = [TaskLine.of(record) for record in found.records]
        return TaskPage(tasks=lines, cursor=following, more=found.more)

    @router.get(
        "/tasks/{task_id}", responses=documented_answer(examples.TASK) | documented_problems(404, 422, 503)
    )
    async def show_task(task_id: TaskIdPath) -> TaskView:
        """Show a task with its steps and its history, and what each action would do to it."""
        record = (await tasks.find(TaskId(task_id))).record
        return TaskView.whole(record, registry.find(record.order.workflow), traces, clock.now())

    @router.post("/tasks/{task_id}/resubmit", **_ACTION)
    async def resubmit(task_id: TaskIdPath, body: Reason, operator: AdmittedCaller) -> ActionTaken:
        """Run a task in `Error` again, from where it stopped."""
        return _taken(await actions.resubmit(TaskId(task_id), who=operator.name, reason=body.reason))

    @router.post("/tasks/{task_id}/undo", **_ACTION)
    async def undo(task_id: TaskIdPath, body: Reason, operator: AdmittedCaller) -> ActionTaken:
        """Undo everything that a task in `Error` has dispatched."""
        return _taken(await actions.undo(TaskId(task_id), who=operator.name, reason=body.reason))

    @router.get("/summary", responses=documented_answer(examples.SUMMARY) | documented_problems(503))
    async def summary() -> Summary:
        """Count what is under way, overdue and in `Error`, and show the Supervisor's last sweep."""
        return await summaries.read()

    @router.get("/overview", responses=documented_answer(examples.OVERVIEW) | documented_problems(503))
    async def overview() -> Overview:
        """Show how everything is, and what the last hour brought, minute by minute."""
        return await overviews.read()

    return router


def _taken(record: TaskRecord) -> ActionTaken:
    task = record.task
    return ActionTaken(id=task.order_id, epoch=task.epoch, state=task.process_state, direction=task.direction)
