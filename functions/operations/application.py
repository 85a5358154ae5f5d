"""The operators' FastAPI application: tasks, what can be done about them, and how everything is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request
from pydantic import BaseModel, Field

from functions.operations.action_requests import TaskIdPath
from functions.operations.overview import Overview, OverviewReader
from functions.operations.rejected.routes import add_rejected
from functions.operations.tasks.action_routes import add_actions, add_bulk
from functions.operations.tasks.actions import Actions, GivenResults
from functions.operations.tasks.bulk import Bulk
from functions.operations.tasks.contents import add_contents
from functions.operations.tasks.error_groups import ErrorGroups, Groups, GroupsQuery
from functions.operations.tasks.listing import Tasks
from functions.operations.tasks.query import ListQuery
from functions.operations.tasks.views import TaskLine, TaskPage, TaskView, UnreadableRow
from functions.pattern.definition import Registry
from functions.pattern.identity import TaskId
from functions.pattern.ports import Agent, Ports
from functions.pattern.records import MAX_RESULT_BYTES
from functions.pattern.request_figures import BusFigures, StoreFigures
from functions.web.access import GUARDED, Access, Guard, caller_of
from functions.web.application import bare_application
from functions.web.bodies import BodyLimit, BodyLimits, ReadRoute
from functions.web.callers import Role
from functions.web.events import Events
from functions.web.problems import documented_problems


class OwnRoles(BaseModel):
    """The name and the roles of the caller that asks."""

    name: Annotated[str, Field(examples=["operator"])]
    roles: Annotated[list[str], Field(examples=[["Operator"]])]


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
    """Serve `/api/ops`. A Scheduler must claim a resubmitted task within `start_within` seconds."""
    app = bare_application("Operations", responses=GUARDED)
    access = Access(reading={Role.READER, Role.OPERATOR}, writing={Role.OPERATOR}, own_pages_only=True)
    # A body is a reason, of 500 characters at most, perhaps a step's result, and perhaps a filter.
    guard.protect(app, access, BodyLimits(BodyLimit(8 * 1024 + MAX_RESULT_BYTES)))
    router = APIRouter(prefix="/api/ops", tags=["operations"], route_class=ReadRoute)
    _add_tasks(router, ports, trace_url_template)
    results, events = GivenResults(registry, agents), Events(ports, registry, start_within)
    tasks, actions = Tasks(ports), Actions(ports, results, events, start_within)
    add_contents(router, tasks, registry)
    add_actions(router, tasks, actions)
    add_bulk(router, ports, Bulk(ports, tasks, actions))
    _add_overview(router, OverviewReader(ports, registry), store, bus)
    add_rejected(router, ports, registry)
    app.include_router(router)
    return app


def _add_tasks(router: APIRouter, ports: Ports, trace_url_template: str | None) -> None:
    tasks, groups = Tasks(ports), Groups(ports)

    @router.get("/tasks", responses=documented_problems(422, 503))
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

    @router.get("/errors", responses=documented_problems(422, 503))
    async def group_errors(query: Annotated[GroupsQuery, Query()]) -> ErrorGroups:
        """Group tasks in `Error` by cause, the latest of them; `before` goes on to earlier ones."""
        return await groups.read(query)

    @router.get("/tasks/{task_id}", responses=documented_problems(404, 422, 503))
    async def show_task(task_id: TaskIdPath) -> TaskView:
        """Show a task with its steps and its history, and what each action would do to it."""
        record = (await tasks.find(TaskId(task_id))).record
        about = await ports.rejected.of_task(TaskId(task_id), 20)
        return TaskView.whole(record, about.messages, trace_url_template, ports.clock.now())


def _add_overview(router: APIRouter, overviews: OverviewReader, store: StoreFigures, bus: BusFigures) -> None:
    @router.get("/overview", responses=documented_problems(503))
    async def overview() -> Overview:
        """Return the state of all parts, and the counts of tasks of the last hour."""
        return await overviews.read()

    @router.get("/me")
    async def me(request: Request) -> OwnRoles:
        """Show the caller's name and roles."""
        caller = caller_of(request)
        return OwnRoles(name=caller.name, roles=sorted(caller.roles))

    @router.get("/figures")
    async def figures() -> dict[str, dict[str, int]]:
        """Count what this instance has asked of its services since it started."""
        return {"table_storage": asdict(store), "service_bus": asdict(bus)}
