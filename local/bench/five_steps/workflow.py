"""The workflow `parcels`: five steps in order, whose Agents are in the process and take no time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from pydantic import BaseModel

from functions.agents.endpoints import url_setting
from functions.agents.remote import RemoteService
from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.ports import AgentCall
from functions.pattern.states import Remedy
from functions.workflows.registration import Registration

RESOURCE = "parcels"
#: What is sent as the order.
PARCEL: dict[str, object] = {
    "account": "A-1042",
    "pickup": {"latitude": 47.6423, "longitude": -122.1391},
    "dropoff": {"latitude": 47.6205, "longitude": -122.3493},
    "package": {"weight_kg": 2.5, "size": "small", "tag": "spare parts"},
    "expedited": False,
    "confirmation": "fingerprint",
}
_STEPS = tuple(map(StepName, ("account", "package", "transport", "drone", "delivery")))
_UNDONE = frozenset({"package", "drone", "delivery"})
_COMPLETE_WITHIN = 60
#: The discard port: each Agent needs an address, and none calls it.
NOBODY = "http://127.0.0.1:9"


class Parcel(BaseModel):
    """The payload."""

    account: str
    pickup: Mapping[str, float]
    dropoff: Mapping[str, float]
    package: Mapping[str, float | str]
    expedited: bool
    confirmation: str


class IdleAgent:
    """Does nothing, and completes at once: what is left is the cost of everything else."""

    def __init__(self, service: RemoteService) -> None:
        """Leave the service alone."""

    async def do(self, call: AgentCall) -> Json:  # noqa: ARG002 - an Agent's interface
        """Give a result of a usual size."""
        return {"booking": "B-1042", "accepted": True}

    async def undo(self, call: AgentCall) -> None:
        """Undo nothing."""


def _request(parcel: Parcel, _results: Mapping[StepName, Json]) -> Json:
    return parcel.model_dump(mode="json")


def _step(name: StepName, needs: frozenset[StepName]) -> Step:
    return Step(
        name,
        agent=name,
        request=_request,
        complete_within=_COMPLETE_WITHIN,
        needs=needs,
        undo=name in _UNDONE,
    )


PARCELS = Workflow(
    name="parcels",
    resource=RESOURCE,
    payload=Parcel,
    on_failure=Remedy.COMPENSATE,
    on_exhausted=Remedy.COMPENSATE,
    steps=(
        _step(_STEPS[0], frozenset()),
        *(_step(step, frozenset({before})) for before, step in pairwise(_STEPS)),
    ),
)
REGISTRATION = Registration(PARCELS, agents=dict.fromkeys(_STEPS, IdleAgent))
#: The settings that the app needs beside those of every application.
SETTINGS = {url_setting(step): NOBODY for step in _STEPS}
