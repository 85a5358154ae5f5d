"""The sample services of a delivery: accounts, packages, transports, drones and deliveries."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Annotated
from zlib import crc32

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from functions.core.definition.step_definition import Json
from functions.core.json_values import PLAIN_NUMBER
from functions.services.service import SampleService
from functions.workflows.deliveries.models import Location, Package, Text

_CARRIERS = ("Harbour Freight Lines", "Northway Couriers", "Valley Express")


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Standing(_Request):
    """The state of an account."""

    suspended: bool


class Transport(_Request):
    """The weight and the distance of a transport."""

    weight_kg: Annotated[float, PLAIN_NUMBER, Field(gt=0, le=1_000)]
    distance_km: Annotated[Decimal, PLAIN_NUMBER, Field(gt=0, le=25_000, decimal_places=1)]


class Mission(_Request):
    """The mission of a drone."""

    # A package that is too heavy for a drone is refused with 422, which is permanent.
    weight_kg: Annotated[float, PLAIN_NUMBER, Field(gt=0, le=25)]
    pickup: Location
    pickup_at: AwareDatetime


class Flight(_Request):
    """The flight of a drone. Outside the service area, `carrier` takes the package over."""

    account: Text
    tracking_number: Text
    drone: Text
    carrier: Text | None
    pickup: Location
    pickup_at: AwareDatetime
    dropoff: Location
    expedited: bool


def _label(package_id: str, _package: Package) -> Json:
    return {"tracking_number": f"PK{sha256(package_id.encode()).hexdigest()[:10].upper()}"}


def _quote(transport_id: str, transport: Transport) -> Json:
    price = Decimal("7.50") + transport.distance_km * Decimal("0.35")
    carrier = _CARRIERS[crc32(transport_id.encode()) % len(_CARRIERS)]
    return {"carrier": carrier, "price": f"{price:.2f}", "currency": "EUR"}


def _assign(assignment_id: str, _mission: Mission) -> Json:
    return {"drone": f"drone-{crc32(assignment_id.encode()) % 40 + 1:02d}"}


def _schedule(_delivery_id: str, flight: Flight) -> Json:
    expected_at = flight.pickup_at + timedelta(minutes=40 if flight.expedited else 90)
    return {"expected_at": expected_at.isoformat()}


SERVICES = (
    # Every account exists, and is active unless a caller suspended it.
    SampleService("accounts", Standing, default={"suspended": False}),
    SampleService("packages", Package, _label),
    SampleService("transports", Transport, _quote),
    SampleService("drones", Mission, _assign),
    SampleService("deliveries", Flight, _schedule),
)
