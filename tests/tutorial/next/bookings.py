"""Bookings: flight, rooms and perhaps a car; approved if dear, charged once, a month before departure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from functions.agents.agent_call import RefusedError
from functions.agents.http_agent import Call, RestAgent, content_of, resource_of
from functions.workflow import EventStep, Json, Results, Step, TimerStep, Workflow, days
from functions.workflows_next.registration import Registration


class Booking(BaseModel):
    """A trip, and its price in EUR."""

    model_config = ConfigDict(extra="forbid")

    traveller: str
    departure: AwareDatetime
    nights: Annotated[int, Field(ge=1, le=14)]
    car: bool = False
    price: Annotated[int, Field(ge=1)]


class Reservation(BaseModel):
    """The answer of each service."""

    reference: str


class Approval(BaseModel):
    """The decision of the approver."""

    model_config = ConfigDict(extra="forbid")

    approved: bool


class CardAgent(RestAgent):
    """Charges a card and refunds it, unless the approver has refused the booking."""

    async def do(self, call: Call) -> Json:
        """Charge. Raises `RefusedError` without an approval."""
        if not content_of(call)["approved"]:
            raise RefusedError("the approver has refused it")
        return await super().do(call)

    async def undo(self, call: Call) -> None:
        """Refund by the receipt; without one, by the id, under which no later charge is accepted."""
        await self.put(f"{resource_of(call)}/refund", call.request, call)


def nights(booking: Booking) -> Sequence[date]:
    """Return each night: its room is a step of its own."""
    return [booking.departure.date() + timedelta(days=night) for night in range(booking.nights)]


def wants_car(booking: Booking, _results: Results) -> bool:
    """Return whether a car is booked."""
    return booking.car


def is_dear(booking: Booking, _results: Results) -> bool:
    """Return whether the booking needs an approval."""
    return booking.price > 1_000


def is_approved(_booking: Booking, results: Results) -> bool:
    """Return whether it may be charged: a cheap booking has no approval."""
    approval = results[APPROVAL]
    return approval is None or approval.approved


def _seat(booking: Booking, _results: Results) -> Json:
    return {"traveller": booking.traveller, "departure": booking.departure.isoformat()}


def _room(booking: Booking, _results: Results, night: date) -> Json:
    return {"traveller": booking.traveller, "night": night.isoformat()}


def _car(booking: Booking, results: Results) -> Json:
    return {"traveller": booking.traveller, "flight": results[FLIGHT].reference}


def _pay_day(booking: Booking, _results: Results) -> datetime:
    return booking.departure - timedelta(days=30)


def _charge(booking: Booking, results: Results) -> Json:
    return {"eur": booking.price, "approved": is_approved(booking, results)}


def _refund(booking: Booking, _results: Results, charged: Reservation | None) -> Json:
    return {"eur": booking.price, "receipt": None if charged is None else charged.reference}


def _ticket(booking: Booking, results: Results) -> Json:
    return {"to": booking.traveller, "flight": results[FLIGHT].reference}


def _output(_booking: Booking, results: Results) -> Json:
    return {
        "flight": results[FLIGHT].reference,
        "rooms": [room.reference for room in results[HOTEL] if room is not None],
        "receipt": results[CHARGE].reference,
        "ticket_sent": results[TICKET] is not None,
    }


FLIGHT = Step("flight", request=_seat, result=Reservation, complete_within=20, undo=True)
HOTEL = Step(
    "hotel",
    needs=[FLIGHT],
    for_each=nights,
    at_once=2,
    request=_room,
    result=Reservation,
    complete_within=20,
    undo=True,
)
CAR = Step(
    "car", needs=[FLIGHT], when=wants_car, request=_car, result=Reservation, complete_within=20, undo=True
)
APPROVAL = EventStep("approval", needs=[HOTEL, CAR], when=is_dear, event=Approval, complete_within=days(2))
PAY_DAY = TimerStep("pay-day", needs=[APPROVAL], when=is_approved, until=_pay_day)
CHARGE = Step(
    "charge",
    agent="card",
    needs=[PAY_DAY],
    request=_charge,
    result=Reservation,
    complete_within=60,
    idempotent=False,
    undo=_refund,
)
TICKET = Step("ticket", needs=[CHARGE], request=_ticket, complete_within=20, on_failure="continue")

BOOKINGS = Workflow(
    "booking",
    resource="bookings",
    payload=Booking,
    steps=[FLIGHT, HOTEL, CAR, APPROVAL, PAY_DAY, CHARGE, TICKET],
    on_failure="compensate",
    on_exhausted="compensate",
    cancel_within=days(14),
    output=_output,
)

REGISTRATION = Registration(BOOKINGS, agents={"card": CardAgent})

# The next version: older bookings keep their steps

INSURANCE = Step("insurance", needs=[CHARGE], request=_seat, complete_within=20, undo=True)

BOOKINGS_2 = Workflow(
    "booking",
    resource="bookings",
    version=2,
    payload=Booking,
    steps=[FLIGHT, HOTEL, CAR, APPROVAL, PAY_DAY, CHARGE, TICKET, INSURANCE],
    on_failure="compensate",
    on_exhausted="compensate",
    cancel_within=days(14),
    output=_output,
)

REGISTRATION_2 = Registration(BOOKINGS_2, agents={"card": CardAgent}, older=(BOOKINGS,))
