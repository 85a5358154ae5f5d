"""The sample delivery service: schedules the flight of a drone with a package."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from functions.pattern.definition import Json
from functions.services.places import Place
from functions.services.service import SampleService

_USUAL_TIME = timedelta(minutes=90)
_EXPEDITED_TIME = timedelta(minutes=40)

Text = Annotated[str, Field(min_length=1, max_length=100)]


class Flight(BaseModel):
    """What is to be delivered, by whom, from where to where; `carrier` takes over outside of our area."""

    model_config = ConfigDict(extra="forbid")

    account: Text
    tracking_number: Text
    drone: Text
    carrier: Text | None
    pickup: Place
    pickup_at: AwareDatetime
    dropoff: Place
    expedited: bool


def _confirm(_delivery_id: str, flight: Flight) -> Json:
    expected_at = flight.pickup_at + (_EXPEDITED_TIME if flight.expedited else _USUAL_TIME)
    return {"expected_at": expected_at.isoformat()}


DELIVERIES = SampleService("deliveries", table="Deliveries", order=Flight, confirm=_confirm)
