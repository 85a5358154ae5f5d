"""Deliveries for tests: one step, two in parallel, two more; three can be undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from functions.agents.remote import RemoteService
from functions.agents.rest import RestAgent, read_answer
from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.ports import AgentCall
from functions.pattern.states import Remedy
from functions.workflows.registration import Registration
from tests.fakes import orders


class Parcel(BaseModel):
    """What a test delivers."""

    model_config = ConfigDict(extra="allow")

    account: str


class Label(BaseModel):
    """The tracking number of a package."""

    tracking_number: str


class LabelAgent(RestAgent):
    """Reads what its service confirmed, as an Agent of a workflow can."""

    def __init__(self, service: RemoteService) -> None:
        super().__init__(service)
        self._packages = service

    async def do(self, call: AgentCall) -> Json:
        """Label the package, and return its number."""
        await super().do(call)
        return read_answer(Label, await self._packages.get(call.resource, call.complete_by)).model_dump()


def _request(parcel: Parcel, _results: Mapping[StepName, Json]) -> Json:
    return parcel.model_dump()


def _step(name: str, *needs: str, undo: bool = False) -> Step:
    return Step(
        StepName(name),
        agent=name,
        request=_request,
        complete_within=15,
        needs=frozenset(map(StepName, needs)),
        undo=undo,
    )


UNDOING = Workflow(
    name="delivery",
    resource="deliveries",
    payload=Parcel,
    on_failure=Remedy.COMPENSATE,
    on_exhausted=Remedy.COMPENSATE,
    steps=(
        _step("account"),
        _step("package", "account", undo=True),
        _step("transport", "account"),
        _step("drone", "package", "transport", undo=True),
        _step("delivery", "package", "transport", "drone", undo=True),
    ),
)

#: Is held for an operator instead of being undone.
HOLDING = replace(UNDOING, on_failure=Remedy.HOLD, on_exhausted=Remedy.HOLD)

AGENTS = {"package": LabelAgent}
REGISTRATIONS = (Registration(UNDOING, AGENTS), orders.REGISTRATION)
