"""The routes by which operators act: on one task, and on all that a filter selects."""

# ruff: noqa: I002 - FastAPI needs the bodies' models themselves, which are no strings then

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from functions.operations.action_requests import ACTION, Reason, ReasonText, StepPath, TaskIdPath
from functions.operations.tasks.actions import ActionName, Actions, Asked, Wish
from functions.operations.tasks.bulk import Bulk, BulkCount, BulkPage, Selection
from functions.operations.tasks.listing import Tasks
from functions.operations.tasks.query import Filter
from functions.operations.tasks.views import ActionTaken
from functions.pattern.definition import STEP_PATTERN
from functions.pattern.identity import FIRST_EPOCH, StepName, TaskId
from functions.pattern.ports import Ports
from functions.pattern.times import UtcTime
from functions.web.access import NEEDS_OWN_HEADER, caller_of
from functions.web.problems import FieldFault, ProblemError, documented_problems


class TaskReason(Reason):
    """Why an operator acts on a task, and the epoch in which it was seen: in another, nothing is done."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "the payment service is fixed", "epoch": 1}]}
    )

    epoch: Annotated[int | None, Field(ge=FIRST_EPOCH, description="The task's epoch; null: any")] = None


class FoundResult(TaskReason):
    """What a step gave, as its Agent would have given it, and how that was found out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"result": {"receipt": "p-1"}, "reason": "the payment is on the account", "epoch": 1}
            ]
        }
    )

    result: dict[str, Any]


class ToldEvent(TaskReason):
    """The event that a step waits for, and why an operator tells it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"body": {"approved": True}, "reason": "approved by telephone", "epoch": 1}]
        }
    )

    body: dict[str, Any]


class BulkAction(BaseModel):
    """An action on all tasks that a filter selected at the time `before`, and why.

    What has ended, was submitted, or has begun another epoch since then is left out, so that nothing is acted
    on twice. `step`, `result` and `body` are for the actions that need them.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "filter": {"state": "Error", "workflow": "orders"},
                    "action": "resubmit",
                    "reason": "the payment service is fixed",
                    "before": "2026-11-21T12:00:00Z",
                }
            ]
        },
    )

    filter: Filter
    action: ActionName
    reason: ReasonText
    before: UtcTime
    cursor: Annotated[str | None, Field(max_length=4_000, description="From the answer before")] = None
    step: Annotated[StepName | None, Field(pattern=rf"^{STEP_PATTERN}$")] = None
    result: dict[str, Any] | None = None
    body: dict[str, Any] | None = None

    def wish(self) -> Wish:
        """Say what is asked for. Raises `ProblemError` 422 for what is missing, or not for this action.

        A filter that asks for nothing was forgotten: nobody means all tasks in `Error` of all workflows so.
        """
        needed = {self.action.content} | ({"step"} if self.action.needs_step else set())
        given = {name: getattr(self, name) for name in ("step", "result", "body")}
        faults = [
            FieldFault(
                field=name, reason=f"'{self.action}' {'needs' if name in needed else 'takes no'} {name}"
            )
            for name, value in given.items()
            if (name in needed) is not (value is not None)
        ]
        if self.filter == Filter():
            faults.append(FieldFault(field="filter", reason="it is empty: name at least the state"))
        if faults:
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=faults)
        return Wish(self.action, self.step, self.result if self.body is None else self.body)


_WHOLE = {
    ActionName.RESUBMIT: "Run a task in `Error` again, from where it stopped.",
    ActionName.UNDO: "Undo everything that a task in `Error` has dispatched.",
    ActionName.CANCEL: "Undo everything that a task has dispatched, in any state but `Compensated`.\n\n"
    "Nothing more is started. What must not be repeated and is running is waited for until its complete-by;"
    " until then the answer shows the epoch as it was.",
    ActionName.PARK: "Park a task under way: nothing of it runs until it is unparked, or cancelled.\n\n"
    "It is refused while a step that must not be repeated is running.",
    ActionName.UNPARK: "Have a task go on that an operator has parked.",
}

type _Take = Callable[[str, Wish, TaskReason, Request], Awaitable[ActionTaken]]


def add_actions(router: APIRouter, tasks: Tasks, actions: Actions) -> None:
    """Add what is done to one task."""

    async def take(task: str, wish: Wish, body: TaskReason, request: Request) -> ActionTaken:
        stored = await tasks.seen(TaskId(task), body.epoch)
        asked = Asked(caller_of(request), body.reason)
        return ActionTaken.model_validate(await actions.take(stored, wish, asked))

    for name, does in _WHOLE.items():
        _add_whole(router, name, does, take)
    _add_of_steps(router, take)


def _add_whole(router: APIRouter, name: ActionName, does: str, take: _Take) -> None:
    @router.post(f"/tasks/{{task_id}}/{name}", description=does, name=name, **ACTION)
    async def act(task_id: TaskIdPath, body: TaskReason, request: Request) -> ActionTaken:
        return await take(task_id, Wish(name), body, request)


def _add_of_steps(router: APIRouter, take: _Take) -> None:
    @router.post("/tasks/{task_id}/steps/{step}/done", **ACTION)
    async def done(task_id: TaskIdPath, step: StepPath, body: FoundResult, request: Request) -> ActionTaken:
        """Say that a step of unknown outcome was done, and what it gave; the task goes on after it.

        The way on as well for a step in `Unrecorded`, whose own result could not be kept.
        """
        return await take(task_id, Wish(ActionName.DONE, StepName(step), body.result), body, request)

    @router.post("/tasks/{task_id}/steps/{step}/not-done", **ACTION)
    async def not_done(
        task_id: TaskIdPath, step: StepPath, body: TaskReason, request: Request
    ) -> ActionTaken:
        """Say that a step of unknown outcome was not done: it is run, for the first time in effect."""
        return await take(task_id, Wish(ActionName.NOT_DONE, StepName(step)), body, request)

    @router.post("/tasks/{task_id}/steps/{step}/skip", **ACTION)
    async def skip(task_id: TaskIdPath, step: StepPath, body: FoundResult, request: Request) -> ActionTaken:
        """Give the result of a step that failed, or got no answer, in its place; the task goes on after it.

        If the step was dispatched, a later undo covers it all the same.
        """
        return await take(task_id, Wish(ActionName.SKIP, StepName(step), body.result), body, request)

    @router.post("/tasks/{task_id}/events/{step}", **ACTION)
    async def tell(task_id: TaskIdPath, step: StepPath, body: ToldEvent, request: Request) -> ActionTaken:
        """Tell the event that a step waits for, as its callers can: the same again changes nothing.

        Who tells it needs the step's role.
        """
        return await take(task_id, Wish(ActionName.EVENT, StepName(step), body.body), body, request)


def add_bulk(router: APIRouter, ports: Ports, bulk: Bulk) -> None:
    """Add what is done to all tasks that a filter selects."""

    @router.get("/count", responses=documented_problems(422, 503))
    async def count(asked: Annotated[Filter, Query()]) -> BulkCount:
        """Count the tasks that a filter selects, up to 10,000."""
        return await bulk.count(asked)

    @router.post(
        "/tasks/actions",
        dependencies=[NEEDS_OWN_HEADER],
        responses=documented_problems(400, 413, 415, 422, 503),
    )
    async def act(body: BulkAction, request: Request) -> BulkPage:
        """Act on some 50 of the tasks that a filter selects; `cursor` asks for the next ones.

        Each task is acted on for itself, and keeps who did it and why. Repeating a request, or beginning
        again, does no harm.
        """
        selection = Selection(ports, body.filter, body.before)
        asked = Asked(caller_of(request), body.reason)
        return await bulk.act(selection, body.cursor, body.wish(), asked)
