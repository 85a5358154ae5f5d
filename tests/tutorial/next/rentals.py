"""Rentals: a car and its insurance, for callers and for other workflows."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from functions.workflow import Json, Results, Step, Workflow
from functions.workflows_next.registration import Registration


class Rental(BaseModel):
    """The driver and the category of the car."""

    model_config = ConfigDict(extra="forbid")

    driver: str
    category: str = "compact"


class Car(BaseModel):
    """The answer of the garage."""

    reference: str


def _request(rental: Rental, _results: Results) -> Json:
    return rental.model_dump()


def _output(_rental: Rental, results: Results) -> Json:
    return {"car": results[CAR].reference}


CAR = Step("car", request=_request, result=Car, complete_within=20, undo=True)
INSURANCE = Step("insurance", needs=[CAR], request=_request, complete_within=20, undo=True)

RENTALS = Workflow(
    "rental",
    resource="rentals",
    payload=Rental,
    steps=[CAR, INSURANCE],
    on_failure="compensate",
    on_exhausted="keep",
    output=_output,
)

REGISTRATION = Registration(RENTALS)
