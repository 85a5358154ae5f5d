"""The workflow `trips`: a flight; then a room and, when one is wanted, a car. All of it, or none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from functions.workflow import (
    EventStep,
    Json,
    Results,
    Retry,
    Step,
    TimerStep,
    Workflow,
    WorkflowStep,
    days,
)
from functions.workflows_next.registration import Registration


class Trip(BaseModel):
    """A flight, a room at its end, and a car if the traveller wants one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    traveller: Annotated[str, Field(min_length=1, max_length=100)]
    destination: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    departure: date
    nights: Annotated[int, Field(strict=True, ge=1, le=30)]
    car: Literal["small", "van"] | None = None


class Reservation(BaseModel):
    """The answer of each service."""

    reference: str


def wants_car(trip: Trip, _results: Results) -> bool:
    """Return whether the traveller wants a car."""
    return trip.car is not None


def _flight_request(trip: Trip, _results: Results) -> Json:
    return trip.model_dump(mode="json", include={"traveller", "destination", "departure"})


def _hotel_request(trip: Trip, results: Results) -> Json:
    return {"traveller": trip.traveller, "nights": trip.nights, "flight": results[FLIGHT].reference}


def _car_request(trip: Trip, results: Results) -> Json:
    return {"traveller": trip.traveller, "category": trip.car, "flight": results[FLIGHT].reference}


def _output(_trip: Trip, results: Results) -> Json:
    return {"flight": results[FLIGHT].reference, "hotel": results[HOTEL].reference}


FLIGHT = Step("flight", request=_flight_request, result=Reservation, complete_within=20, undo=True)
HOTEL = Step(
    "hotel", needs=[FLIGHT], request=_hotel_request, result=Reservation, complete_within=20, undo=True
)
CAR = Step(
    "car",
    needs=[FLIGHT],
    when=wants_car,
    request=_car_request,
    result=Reservation,
    complete_within=20,
    undo=True,
)

TRIPS = Workflow(
    "trip",
    resource="trips",
    payload=Trip,
    steps=[FLIGHT, HOTEL, CAR],
    on_failure="compensate",
    on_exhausted="compensate",
    cancel_within=days(1),
    output=_output,
)

REGISTRATION = Registration(TRIPS)

# An undo with a request of its own


def _flight_undo(trip: Trip, _results: Results, own: Reservation | None) -> Json:
    return {"traveller": trip.traveller, "reference": None if own is None else own.reference}


REFUNDED = Step("flight", request=_flight_request, result=Reservation, complete_within=20, undo=_flight_undo)

# The same for each item


def _nights(trip: Trip) -> Sequence[date]:
    return [trip.departure + timedelta(days=night) for night in range(trip.nights)]


def _night_request(trip: Trip, _results: Results, night: date) -> Json:
    return {"traveller": trip.traveller, "night": night.isoformat()}


EACH_NIGHT = Step(
    "hotel",
    needs=[FLIGHT],
    for_each=_nights,
    at_once=3,
    request=_night_request,
    result=Reservation,
    complete_within=20,
    undo=True,
)

# A step that waits


class Approval(BaseModel):
    """The decision of the approver."""

    approved: bool


def is_long(trip: Trip, _results: Results) -> bool:
    """Return whether the trip needs an approval."""
    return trip.nights > 7


def _day_before(trip: Trip, _results: Results) -> datetime:
    return datetime.combine(trip.departure - timedelta(days=1), time(9), UTC)


APPROVAL = EventStep("approval", needs=[HOTEL], when=is_long, event=Approval, complete_within=days(3))
DAY_BEFORE = TimerStep("day-before", needs=[APPROVAL], until=_day_before)

# A step that the trip can do without


def _ticket_request(trip: Trip, results: Results) -> Json:
    return {"to": trip.traveller, "flight": results[FLIGHT].reference}


TICKET = Step(
    "ticket",
    needs=[DAY_BEFORE],
    request=_ticket_request,
    complete_within=20,
    retry=Retry(first=0.5, longest=5),
    on_failure="continue",
)

# A step that is a workflow


class Rented(BaseModel):
    """The output of a rental."""

    car: str


def _rental(trip: Trip, _results: Results) -> Json:
    return {"driver": trip.traveller, "category": trip.car}


RENTED = WorkflowStep(
    "car",
    needs=[FLIGHT],
    when=wants_car,
    workflow="rental",
    request=_rental,
    result=Rented,
    complete_within=days(1),
)

LONG_TRIPS = Workflow(
    "long-trip",
    resource="long-trips",
    payload=Trip,
    steps=[FLIGHT, HOTEL, RENTED, APPROVAL, DAY_BEFORE, TICKET],
)
NIGHTLY_TRIPS = Workflow("nightly-trip", payload=Trip, steps=[REFUNDED, EACH_NIGHT])
