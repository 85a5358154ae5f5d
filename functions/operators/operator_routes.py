"""The operators' application: all routes below `/api/ops`, and the routes of tasks."""

# ruff: noqa: I002 - FastAPI needs the classes of bodies, and not their names

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from functions.core.json_values import MOST_TEXT_BYTES
from functions.http.access import GUARDED, Access, Caller, Guard, Role, caller_of, check_origin
from functions.http.application import bare_application
from functions.http.bodies import BodyLimit, ReadRoute
from functions.http.problems import FieldFault, ProblemError, documented_problems, handle_errors
from functions.messaging.message_format import STEP_PATTERN, TASK_ID_PATTERN, QueueMessage, UtcTime
from functions.messaging.rejected_messages import RejectedMessages
from functions.operators.bulk_actions import BulkActions, BulkCount, BulkPage
from functions.operators.error_groups import ErrorGroups, GroupsQuery, error_groups
from functions.operators.gate_routes import add_gate_routes
from functions.operators.overview import Overview, OverviewReader
from functions.operators.rejected_routes import add_rejected_routes
from functions.operators.task_actions import (
    ACTION,
    CONTENT_FIELDS,
    NEEDS_OWN_HEADER,
    WHOLE_TASK,
    Action,
    ActionName,
    Reason,
    TaskActions,
    previews,
    spec_of,
)
from functions.operators.task_list import (
    ListQuery,
    TaskFilter,
    TaskLine,
    TaskList,
    TaskPage,
    as_problem,
    wrong_field,
)
from functions.operators.task_page import Contents, StepContents, TaskContents, TaskView, read_epochs
from functions.storage.gates import Gates
from functions.storage.table_contract import StorageError

TaskIdPath = Annotated[str, Path(pattern=TASK_ID_PATTERN, description="The task's id", examples=["order-1"])]
StepPath = Annotated[
    str, Path(pattern=f"^{STEP_PATTERN}$", description="The step's name", examples=["payment"])
]

ActionPath = Annotated[ActionName, Path(examples=["resubmit"])]
StepActionPath = Annotated[ActionName, Path(examples=["rebuild"])]


class _ActionBody(Reason):
    """The reason of an action. `result` and `body` (of an event) belong to the actions that need them."""

    result: dict[str, Any] | None = None
    body: dict[str, Any] | None = None

    def action(self, name: ActionName, step: str | None) -> Action:
        """Return the action. Raises `ProblemError` 422 for fields that are missing or do not belong to it."""
        needed = {CONTENT_FIELDS.get(name), None if name in WHOLE_TASK else "step"}
        given = {"step": step, "result": self.result, "body": self.body}
        faults = [
            FieldFault(field=field, reason=f"{name} {'needs' if field in needed else 'has no'} {field}")
            for field, value in given.items()
            if (field in needed) is not (value is not None)
        ]
        if faults:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=faults)
        return Action(name, step, self.result if self.body is None else self.body)


class SingleAction(_ActionBody):
    """An action on one task, in the epoch that the operator saw. In another epoch it is rejected."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "the payment service is fixed", "epoch": 1}]}
    )

    epoch: Annotated[int | None, Field(ge=1, strict=True, description="null: any epoch")] = None


class BulkAction(_ActionBody):
    """An action on all tasks that a filter selects as of `before`. A repeated request does no harm."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "filter": {"state": "Error", "workflow": "orders"},
                    "action": "resubmit",
                    "reason": "the payment service is fixed",
                    "before": "2026-11-21T12:00:00Z",
                }
            ]
        }
    )

    filter: TaskFilter
    action_name: Annotated[ActionName, Field(alias="action")]
    before: UtcTime
    cursor: Annotated[str | None, Field(max_length=4_000, description="From the previous answer")] = None
    step: Annotated[str | None, Field(pattern=f"^{STEP_PATTERN}$")] = None


def add_task_routes(
    app: FastAPI,
    router: APIRouter,
    actions: TaskActions,
    *,
    rejected: RejectedMessages,
    trace_url_template: str | None,
) -> None:
    """Add the routes to a router, and the answers to errors of the storage to its application."""
    handle_errors(app, StorageError, as_problem=as_problem)
    tasks = TaskList(actions.storage, actions.now)

    @router.get("/tasks", responses=documented_problems(422, 503))
    async def list_tasks(query: Annotated[ListQuery, Query()]) -> TaskPage:
        """List the tasks that match a filter, page by page in the order of time.

        One request reads a bounded number of tasks, so a page may be empty although `cursor` continues it.
        """
        return await tasks.page(query)

    @router.get("/errors", responses=documented_problems(422, 503))
    async def group_errors(query: Annotated[GroupsQuery, Query()]) -> ErrorGroups:
        """Group the newest tasks in `Error` by cause; `before` continues with earlier ones."""
        return await error_groups(actions.storage, query)

    @router.get("/tasks/{task_id}", responses=documented_problems(404, 422, 503))
    async def show_task(task_id: TaskIdPath) -> TaskView:
        """Show a task with its steps and its history, and what would follow each action."""
        record = await tasks.find(task_id)
        return TaskView.of_record(
            record,
            await read_epochs(actions.storage, task_id),
            actions=list(previews(record, actions.now(), actions.settings)),
            rejected=(await rejected.of_task(task_id, 20)).messages,
            trace_url_template=trace_url_template,
        )

    @router.get("/tasks/{task_id}/contents", responses=documented_problems(404, 422, 503))
    async def show_contents(task_id: TaskIdPath) -> TaskContents:
        """Show the payload and the output of a task, without secret fields."""
        return Contents(await tasks.find(task_id), actions.registry).task()

    @router.get("/tasks/{task_id}/steps/{step}/contents", responses=documented_problems(404, 422, 503))
    async def show_step(task_id: TaskIdPath, step: StepPath) -> StepContents:
        """Show the recorded requests and the result of a step, without secret fields."""
        record = await tasks.find(task_id)
        return Contents(record, actions.registry).step(spec_of(record, step))

    _add_actions(router, actions, tasks)
    _add_bulk(router, BulkActions(actions, tasks))


def _add_actions(router: APIRouter, actions: TaskActions, tasks: TaskList) -> None:
    async def take(task: str, name: ActionName, step: str | None, body: SingleAction, by: Caller) -> TaskLine:
        action = body.action(name, step)
        seen = await tasks.find(task, body.epoch)
        return TaskLine.of(await actions.take(seen, action, by, body.reason))

    @router.post("/tasks/{task_id}/{action}", **ACTION)
    async def act(task_id: TaskIdPath, action: ActionPath, body: SingleAction, request: Request) -> TaskLine:
        """Act on a task.

        - `resubmit`: run a task in `Error` again. Refused steps start again with their recorded requests.
        - `undo`: undo every dispatched step of a task in `Error`.
        - `cancel`: undo every dispatched step in any state of the task. A pending outcome of a step that must
          not be repeated is awaited first.
        - `suspend`: start no further step. Calls under way end and count.
        - `resume`: continue a task that an operator suspended.
        """
        return await take(task_id, action, None, body, caller_of(request))

    @router.post("/tasks/{task_id}/steps/{step}/{action}", **ACTION)
    async def act_on_step(
        task_id: TaskIdPath, step: StepPath, action: StepActionPath, body: SingleAction, request: Request
    ) -> TaskLine:
        """Act on one step of a task in `Error`.

        - `done`, `skip`: set the result of a step whose outcome is unknown, or that failed.
        - `not-done`: the step of unknown outcome was not done, and starts again.
        - `rebuild`: resubmit the task, and make the request of the refused step again.
        - `undone`: the refused undo was done by hand. Blocked undos continue.
        - `leave`: leave the effect of the step. Blocked undos continue.
        """
        return await take(task_id, action, step, body, caller_of(request))

    @router.post("/tasks/{task_id}/events/{step}", **ACTION)
    async def send_event(
        task_id: TaskIdPath, step: StepPath, body: SingleAction, request: Request
    ) -> TaskLine:
        """Send the event of a step in the place of its sender, whose role the operator needs."""
        return await take(task_id, ActionName.EVENT, step, body, caller_of(request))


def _add_bulk(router: APIRouter, bulk: BulkActions) -> None:
    @router.get("/count", responses=documented_problems(422, 503))
    async def count(asked: Annotated[TaskFilter, Query()]) -> BulkCount:
        """Count the tasks that match a filter, up to 1,000 of each shard."""
        return await bulk.count(asked)

    @router.post(
        "/tasks/actions",
        dependencies=[NEEDS_OWN_HEADER],
        responses=documented_problems(400, 413, 415, 422, 503),
    )
    async def act(body: BulkAction, request: Request) -> BulkPage:
        """Act on up to 50 of the selected tasks separately; `cursor` continues with the next ones.

        An empty filter is rejected: it would select all tasks in `Error` of all workflows.
        """
        if body.filter == TaskFilter():
            raise wrong_field("filter", "it is empty: name at least the state")
        action = body.action(body.action_name, body.step)
        selection = await bulk.select(body.filter, body.before)
        return await bulk.act(selection, body.cursor, action, caller_of(request), body.reason)


#: Bytes of a body beside the result of a step: a reason and a filter.
_BODY_BYTES = 8 * 1024


class OwnRoles(BaseModel):
    """The name and the roles of the caller."""

    name: Annotated[str, Field(examples=["operator"])]
    roles: Annotated[list[str], Field(examples=[["Operator"]])]


def operators_application(
    actions: TaskActions,
    gates: Gates,
    overview: OverviewReader,
    *,
    rejected: RejectedMessages,
    put: Callable[[str, QueueMessage], Awaitable[None]],
    figures: Callable[[], Mapping[str, Mapping[str, int]]],
    guard: Guard,
    trace_url_template: str | None,
) -> FastAPI:
    """Return the application. `figures` are counts of this process since its start, by service.

    `put` sends a rejected message to a queue again. Readers see everything and change nothing.
    """
    app = bare_application("Operators", responses=GUARDED)
    access = Access(reading={Role.READER, Role.OPERATOR}, writing={Role.OPERATOR})
    guard.protect(app, access, BodyLimit(_BODY_BYTES + MOST_TEXT_BYTES), check_origin)
    router = APIRouter(prefix="/api/ops", tags=["operations"], route_class=ReadRoute)
    add_task_routes(app, router, actions, rejected=rejected, trace_url_template=trace_url_template)
    add_gate_routes(router, gates, actions.registry)
    add_rejected_routes(router, actions.registry, rejected=rejected, put=put, now=actions.now)

    @router.get("/overview", responses=documented_problems(503))
    async def show_overview() -> Overview:
        """Return the state of all parts, and the counts of tasks of the last hour."""
        return await overview.read()

    @router.get("/me")
    async def show_caller(request: Request) -> OwnRoles:
        """Return the name and the roles of the caller."""
        caller = caller_of(request)
        return OwnRoles(name=caller.name, roles=sorted(caller.roles))

    @router.get("/figures")
    async def show_figures() -> Mapping[str, Mapping[str, int]]:
        """Return how often this instance has called its services since its start."""
        return figures()

    app.include_router(router)
    return app
