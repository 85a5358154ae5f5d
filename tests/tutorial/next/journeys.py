"""Journeys: a flight, and a rental for each driver; or nothing of it."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from functions.workflow import Json, Results, Step, Workflow, WorkflowStep, days
from functions.workflows_next.registration import Registration


class Journey(BaseModel):
    """The traveller and the drivers."""

    model_config = ConfigDict(extra="forbid")

    traveller: str
    drivers: tuple[str, ...]


class Flight(BaseModel):
    """The answer of the airline."""

    reference: str


def _drivers(journey: Journey) -> Sequence[str]:
    return journey.drivers


def _flight(journey: Journey, _results: Results) -> Json:
    return {"traveller": journey.traveller}


def _rental(_journey: Journey, _results: Results, driver: str) -> Json:
    return {"driver": driver}


def _output(_journey: Journey, results: Results) -> Json:
    return {"flight": results[FLIGHT].reference, "cars": [rental["car"] for rental in results[CAR]]}


FLIGHT = Step("flight", request=_flight, result=Flight, complete_within=20, undo=True)
CAR = WorkflowStep(
    "car", needs=[FLIGHT], for_each=_drivers, workflow="rental", request=_rental, complete_within=days(1)
)

JOURNEYS = Workflow(
    "journey",
    resource="journeys",
    payload=Journey,
    steps=[FLIGHT, CAR],
    on_failure="compensate",
    cancel_within=days(14),
    output=_output,
)

REGISTRATION = Registration(JOURNEYS)
