"""The routes of operators for the gates of remote services and of Agents' queues: hold, end, limit."""

# ruff: noqa: I002 - FastAPI needs the classes of bodies, and not their names

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from functions.core.definition.workflow_definition import WorkflowRegistry
from functions.core.gate_rules import Circuit, Gate, Hold
from functions.core.record import NAME_PATTERN
from functions.http.access import caller_of
from functions.http.problems import ProblemError
from functions.operators.task_actions import ACTION, Reason
from functions.storage.gates import Gates
from functions.telemetry.instruments import record_action

#: Calls of one instance that a limit may allow.
_MOST_CALLS = 1000

GatePath = Annotated[
    str,
    Path(
        pattern=rf"^(queue:)?{NAME_PATTERN}$",
        description="The service, or `queue:` and the Agent behind the queue",
        examples=["payment"],
    ),
]


class CallLimit(Reason):
    """The largest number of calls that one instance has under way; null: that of the Agent's settings."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "it is slow", "calls_at_once": 4}]})

    calls_at_once: Annotated[int | None, Field(ge=1, le=_MOST_CALLS, strict=True)]


class HoldEnd(Reason):
    """The hold that ends: `since` is its start. A repeated request ends no other hold."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "repaired", "since": "2026-01-31T12:00:00Z"}]}
    )

    since: AwareDatetime


class GateView(BaseModel):
    """The gate of a remote service, or of an Agent's queue (`queue:{agent}`).

    `next_at` is the next probe or release. While it `is_away`, no call has succeeded since `away_from`.
    `calls_at_once` limits the calls of one instance; null: the limit of the Agent's settings.
    """

    model_config = ConfigDict(from_attributes=True, validate_by_name=True)

    gate: Annotated[str, Field(validation_alias="name")]
    circuit: Circuit
    since: Annotated[datetime | None, Field(validation_alias="changed_at")]
    is_away: bool
    away_from: datetime | None
    next_at: datetime | None
    hold: Hold | None
    calls_at_once: int | None


def add_gate_routes(router: APIRouter, gates: Gates, registry: WorkflowRegistry) -> None:
    """Add the routes. A gate is known if it has a row, or if a step of a deployed workflow has it."""

    async def find(name: str) -> Gate:
        rows = await gates.refresh(is_forced=True)
        if name not in rows and not any(name == spec.gate for each in registry for spec in each.specs):
            raise ProblemError(HTTPStatus.NOT_FOUND, "No service and no Agent's queue has this name.")
        return rows.get(name) or Gate(name=name)

    def acted(request: Request, action: str, name: str) -> GateView:
        record_action(caller_of(request).name, action, f"gates/{name}")
        return GateView.model_validate(gates.of(name) or Gate(name=name))

    @router.post("/gates/{gate}/hold", **ACTION)
    async def hold(gate: GatePath, body: Reason, request: Request) -> GateView:
        """Close a gate until an operator ends the hold: no call of the service starts, no deadline runs."""
        who = caller_of(request).name
        await find(gate)
        await gates.hold(gate, body.reason, who)
        after = gates.of(gate)
        current = None if after is None else after.hold
        if current is None or (current.who, current.reason) != (who, body.reason):
            raise ProblemError(HTTPStatus.CONFLICT, _held_by(current))
        return acted(request, "hold", gate)

    @router.post("/gates/{gate}/end-hold", **ACTION)
    async def end_hold(gate: GatePath, body: HoldEnd, request: Request) -> GateView:
        """End the hold of a gate. The steps behind the gate are released one after the other."""
        current = (await find(gate)).hold
        if current is None or current.start != body.since:
            raise ProblemError(HTTPStatus.CONFLICT, "This hold has ended. Reload the overview.")
        await gates.end_hold(gate, body.since)
        return acted(request, "end-hold", gate)

    @router.post("/gates/{gate}/limit", **ACTION)
    async def limit(gate: GatePath, body: CallLimit, request: Request) -> GateView:
        """Limit the calls that each instance has under way. A new limit counts calls that begin after it."""
        await find(gate)
        await gates.set_calls_at_once(gate, body.calls_at_once)
        return acted(request, "limit", gate)


def _held_by(hold: Hold | None) -> str:
    if hold is None:
        return "Another operator ended the hold at this moment. Reload the overview."
    return f"{hold.who} holds the gate since {hold.start:%Y-%m-%d %H:%M} UTC. End that hold first."
