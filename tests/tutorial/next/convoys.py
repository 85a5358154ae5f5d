"""Convoys: at least as many of the vehicles as are needed, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from functions.agents.agent_call import RefusedError
from functions.agents.http_agent import Call, RestAgent, content_of
from functions.workflow import Json, Results, Step, Workflow
from functions.workflows_next.registration import Registration

type Category = Literal["small", "van"]


class Convoy(BaseModel):
    """Vehicles to rent, and the sufficient number of them."""

    model_config = ConfigDict(extra="forbid")

    vehicles: Annotated[list[Category], Field(min_length=1, max_length=20)]
    needed: Annotated[int, Field(ge=1)]


class Vehicle(BaseModel):
    """The answer of the garage."""

    reference: str


class ContractAgent(RestAgent):
    """Makes the contract, if there are enough vehicles."""

    async def do(self, call: Call) -> Json:
        """Count the vehicles, and call the service."""
        content = content_of(call)
        found, needed = len(content["vehicles"]), content["needed"]
        if found < needed:
            raise RefusedError(f"{found} vehicles, and {needed} are needed")
        return await super().do(call)


def _vehicles(convoy: Convoy) -> Sequence[Category]:
    return convoy.vehicles


def _vehicle(_convoy: Convoy, _results: Results, category: Category) -> Json:
    return {"category": category}


def _contract(convoy: Convoy, results: Results) -> Json:
    found = [vehicle.reference for vehicle in results[VEHICLE] if vehicle is not None]
    return {"vehicles": found, "needed": convoy.needed}


def _output(_convoy: Convoy, results: Results) -> Json:
    return {"rented": [vehicle is not None for vehicle in results[VEHICLE]]}


VEHICLE = Step(
    "vehicle",
    agent="garage",
    for_each=_vehicles,
    at_once=4,
    request=_vehicle,
    result=Vehicle,
    complete_within=20,
    on_failure="continue",
    undo=True,
)
CONTRACT = Step("contract", needs=[VEHICLE], request=_contract, complete_within=20, undo=True)

CONVOYS = Workflow(
    "convoy",
    resource="convoys",
    payload=Convoy,
    steps=[VEHICLE, CONTRACT],
    on_failure="compensate",
    output=_output,
)

REGISTRATION = Registration(CONVOYS, agents={"contract": ContractAgent})
