"""The operators' FastAPI application: tasks, what can be done about them, and how everything is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from functions.operations import examples
from functions.operations.overview.reader import Overview, OverviewReader
from functions.operations.rejected.reading import Rejected
from functions.operations.rejected.routes import add_rejected
from functions.operations.tasks.actions import Actions, Answers, Asked
from functions.operations.tasks.contents import add_contents
from functions.operations.tasks.error_groups import ErrorGroups, Groups, GroupsQuery
from functions.operations.tasks.finding import Tasks
from functions.operations.tasks.query import ListQuery
from functions.operations.tasks.views import ActionTaken, TaskLine, TaskPage, TaskView, UnreadableRow
from functions.operations.trends.reader import TrendReader
from functions.operations.trends.routes import add_trends
from functions.pattern.definition import STEP_PATTERN, Registry
from functions.pattern.events import OperatorAction, Resubmitted, UndoRequested
from functions.pattern.identity import FIRST_EPOCH, TASK_ID_PATTERN, Epoch, StepName, TaskId
from functions.pattern.ports import Agent, Ports
from functions.pattern.records import MAX_RESULT_BYTES
from functions.pattern.request_figures import BusFigures, StoreFigures
from functions.web.access import GUARDED, NEEDS_OWN_HEADER, Access, caller_of
from functions.web.application import bare_application
from functions.web.bodies import BodyLimit, BodyLimits, ReadRoute
from functions.web.callers import Caller, Role
from functions.web.entrance import Guard
from functions.web.openapi import documented_answer
from functions.web.problems import documented_problems

#: An operator's body is a reason, of 500 characters at most, and perhaps a step's result.
_MOST_BODY_BYTES = 4 * 1024 + MAX_RESULT_BYTES

_ACTION_PROBLEMS = documented_problems(400, 404, 409, 413, 415, 422, 503)

_ACTION: dict[str, Any] = {
    "status_code": HTTPStatus.ACCEPTED,
    "dependencies": [NEEDS_OWN_HEADER],
    "responses": documented_answer(examples.ACTION_TAKEN, HTTPStatus.ACCEPTED) | _ACTION_PROBLEMS,
}

TaskIdPath = Annotated[
    str,
    Path(pattern=TASK_ID_PATTERN, description="The task's id, as its caller named it", examples=["order-1"]),
]

StepPath = Annotated[
    str,
    Path(pattern=rf"^{STEP_PATTERN}$", description="The step's name", examples=["payment"]),
]


class Reason(BaseModel):
    """Why an operator acts; it is kept with the action."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"reason": "the payment service is fixed"}]},
    )

    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


class TaskReason(Reason):
    """Why an operator acts on a task, and the epoch in which it was seen: in another, nothing is done."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "the payment service is fixed", "epoch": 1}]}
    )

    epoch: Annotated[
        int | None, Field(ge=FIRST_EPOCH, description="The task's epoch; null stands for any")
    ] = None

    def by(self, operator: Caller) -> Asked:
        """Say who asks."""
        epoch = None if self.epoch is None else Epoch(self.epoch)
        return Asked(who=operator.name, reason=self.reason, epoch=epoch)


class FoundResult(TaskReason):
    """What a step gave that was done, as its Agent would have given it, and how that was found out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"result": {"receipt": "p-1"}, "reason": "the payment is on the account", "epoch": 1}
            ]
        }
    )

    result: dict[str, Any]


def operators_application(
    ports: Ports,
    registry: Registry,
    agents: Mapping[str, Agent],
    store: StoreFigures,
    bus: BusFigures,
    *,
    guard: Guard,
    start_within: float,
    trace_url_template: str | None,
) -> FastAPI:
    """Serve what operators ask for, below `/api/ops`.

    `start_within` is in seconds: by then a Scheduler must have taken a task that an operator resubmits.
    `trace_url_template` is the address at which a trace is shown, if there is any.
    """
    app = bare_application("Operations", responses=GUARDED)
    access = Access(reading={Role.OPERATOR}, writing={Role.OPERATOR}, own_pages_only=True)
    guard.protect(app, access, BodyLimits(BodyLimit(_MOST_BODY_BYTES)))
    router = APIRouter(prefix="/api/ops", tags=["operations"], route_class=ReadRoute)
    rejected = Rejected(ports, registry)
    _add_tasks(router, ports, rejected, trace_url_template)
    add_contents(router, Tasks(ports), registry)
    _add_actions(router, Actions(ports, start_within))
    _add_answers(router, Answers(ports, registry, agents, start_within))
    _add_overview(router, OverviewReader(ports, registry), store, bus)
    add_trends(router, TrendReader(ports, registry))
    add_rejected(router, rejected)
    app.include_router(router)
    return app


def _add_tasks(router: APIRouter, ports: Ports, rejected: Rejected, trace_url_template: str | None) -> None:
    tasks, groups = Tasks(ports), Groups(ports)

    @router.get("/tasks", responses=documented_answer(examples.TASK_PAGE) | documented_problems(422, 503))
    async def list_tasks(query: Annotated[ListQuery, Query()]) -> TaskPage:
        """List tasks by time, page by page: those of one state, or those that have all that is asked for.

        What no index tells is looked for in a bounded number of tasks for each request: `looked_to` says how
        far back that was, and `cursor` goes on from there, also from a page without tasks.
        """
        found = await tasks.page(query)
        return TaskPage(
            tasks=[TaskLine.model_validate(record) for record in found.items],
            cursor=None if found.next is None else found.next.text(),
            looked_to=None if found.next is None else found.next.at,
            more=found.more,
            unreadable=[UnreadableRow.model_validate(row) for row in found.unreadable],
        )

    @router.get("/errors", responses=documented_answer(examples.ERROR_GROUPS) | documented_problems(422, 503))
    async def group_errors(query: Annotated[GroupsQuery, Query()]) -> ErrorGroups:
        """Group tasks in `Error` by cause, the latest of them; `before` goes on to earlier ones."""
        return await groups.read(query)

    @router.get(
        "/tasks/{task_id}", responses=documented_answer(examples.TASK) | documented_problems(404, 422, 503)
    )
    async def show_task(task_id: TaskIdPath) -> TaskView:
        """Show a task with its steps and its history, and what each action would do to it."""
        record = (await tasks.find(TaskId(task_id))).record
        about = await rejected.of_task(TaskId(task_id))
        return TaskView.whole(record, about, trace_url_template, ports.clock.now())


def _add_actions(router: APIRouter, actions: Actions) -> None:
    async def act(action: type[OperatorAction], task: str, asked: Asked) -> ActionTaken:
        return ActionTaken.model_validate(await actions.act(action, TaskId(task), asked))

    @router.post("/tasks/{task_id}/resubmit", **_ACTION)
    async def resubmit(task_id: TaskIdPath, body: TaskReason, request: Request) -> ActionTaken:
        """Run a task in `Error` again, from where it stopped."""
        return await act(Resubmitted, task_id, body.by(caller_of(request)))

    @router.post("/tasks/{task_id}/undo", **_ACTION)
    async def undo(task_id: TaskIdPath, body: TaskReason, request: Request) -> ActionTaken:
        """Undo everything that a task in `Error` has dispatched."""
        return await act(UndoRequested, task_id, body.by(caller_of(request)))

    @router.post("/tasks/{task_id}/cancel", **_ACTION)
    async def cancel(task_id: TaskIdPath, body: TaskReason, request: Request) -> ActionTaken:
        """Undo everything that a task has dispatched, in any state but `Compensated`.

        Nothing more is started. What must not be repeated and is running is waited for until its complete-by;
        until then the answer shows the epoch as it was.
        """
        asked = body.by(caller_of(request))
        return ActionTaken.model_validate(await actions.cancel(TaskId(task_id), asked))


def _add_answers(router: APIRouter, answers: Answers) -> None:
    @router.post("/tasks/{task_id}/steps/{step}/done", **_ACTION)
    async def done(task_id: TaskIdPath, step: StepPath, body: FoundResult, request: Request) -> ActionTaken:
        """Say that a step of unknown outcome was done, and what it gave; the task goes on after it.

        The way on as well for a step in `Unrecorded`, whose own result could not be kept.
        """
        asked = body.by(caller_of(request))
        record = await answers.done(TaskId(task_id), StepName(step), body.result, asked)
        return ActionTaken.model_validate(record)

    @router.post("/tasks/{task_id}/steps/{step}/not-done", **_ACTION)
    async def not_done(
        task_id: TaskIdPath, step: StepPath, body: TaskReason, request: Request
    ) -> ActionTaken:
        """Say that a step of unknown outcome was not done: it is run, for the first time in effect."""
        asked = body.by(caller_of(request))
        record = await answers.not_done(TaskId(task_id), StepName(step), asked)
        return ActionTaken.model_validate(record)


def _add_overview(router: APIRouter, overviews: OverviewReader, store: StoreFigures, bus: BusFigures) -> None:
    @router.get("/overview", responses=documented_answer(examples.OVERVIEW) | documented_problems(503))
    async def overview() -> Overview:
        """Show how everything is, and what finished in the last hour."""
        return await overviews.read()

    @router.get("/figures", responses=documented_answer(examples.FIGURES))
    async def figures() -> dict[str, dict[str, int]]:
        """Count what this instance has asked of its services since it started."""
        return {"table_storage": asdict(store), "service_bus": asdict(bus)}
