"""The operators' application: all routes below `/api/ops`."""

# ruff: noqa: I002 - FastAPI needs the classes of answers, and not their names

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel, Field

from functions.agents.gate_releases import ReleasingGates
from functions.core.json_values import MOST_TEXT_BYTES
from functions.messaging.message_format import QueueMessage
from functions.messaging.rejected_messages import RejectedMessages
from functions.operators.gate_routes import add_gate_routes
from functions.operators.overview import Overview, OverviewReader
from functions.operators.rejected_routes import add_rejected_routes
from functions.operators.request_origin import check_origin
from functions.operators.task_actions import TaskActions
from functions.operators.task_routes import add_task_routes
from functions.web.access import GUARDED, Access, Guard, caller_of
from functions.web.application import bare_application
from functions.web.bodies import BodyLimit, BodyLimits, ReadRoute
from functions.web.callers import Role
from functions.web.problems import documented_problems

#: Bytes of a body beside the result of a step: a reason and a filter.
_BODY_BYTES = 8 * 1024


class OwnRoles(BaseModel):
    """The name and the roles of the caller."""

    name: Annotated[str, Field(examples=["operator"])]
    roles: Annotated[list[str], Field(examples=[["Operator"]])]


def operators_application(
    actions: TaskActions,
    gates: ReleasingGates,
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
    guard.protect(app, access, BodyLimits(BodyLimit(_BODY_BYTES + MOST_TEXT_BYTES)), check_origin)
    router = APIRouter(prefix="/api/ops", tags=["operations"], route_class=ReadRoute)
    add_task_routes(app, router, actions, rejected=rejected, trace_url_template=trace_url_template)
    add_gate_routes(router, gates, actions.registry)
    add_rejected_routes(
        router, actions.storage, actions.registry, rejected=rejected, put=put, now=actions.now
    )

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
