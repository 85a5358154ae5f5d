"""The workflow `parcels`: five steps in order, whose Agents are in the process and take no time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from functions.agents.agent_catalog import setting_of
from functions.agents.http_agent import Call, HttpAgent
from functions.workflow import Json, Results, Step, Workflow
from functions.workflows.registry import Registration

RESOURCE = "parcels"
#: The body of the order that is sent.
PARCEL: dict[str, object] = {
    "account": "A-1042",
    "pickup": {"latitude": 47.6423, "longitude": -122.1391},
    "dropoff": {"latitude": 47.6205, "longitude": -122.3493},
    "package": {"weight_kg": 2.5, "size": "small", "tag": "spare parts"},
    "expedited": False,
    "confirmation": "fingerprint",
}
_STEPS = ("account", "package", "transport", "drone", "delivery")
_UNDONE = frozenset({"package", "drone", "delivery"})
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


class IdleAgent(HttpAgent):
    """Completes at once without a call, so that only the cost of the application is measured."""

    async def do(self, call: Call) -> Json:  # noqa: ARG002 - an Agent's interface
        """Return a result of a usual size."""
        return {"booking": "B-1042", "accepted": True}

    async def undo(self, call: Call) -> None:
        """Return without a call."""


def _request(parcel: Parcel, _results: Results) -> Json:
    return parcel.model_dump(mode="json")


def _step(name: str, *needs: str) -> Step[Any]:
    return Step(name, request=_request, complete_within=60, needs=needs, undo=name in _UNDONE)


PARCELS = Workflow(
    "parcels",
    payload=Parcel,
    steps=[_step(_STEPS[0]), *(_step(step, before) for before, step in pairwise(_STEPS))],
    on_failure="compensate",
    on_exhausted="compensate",
)
REGISTRATION = Registration(PARCELS, agents=dict.fromkeys(_STEPS, IdleAgent))
#: The settings that the app needs beside those of every application.
SETTINGS = {setting_of(step, "URL"): NOBODY for step in _STEPS}
