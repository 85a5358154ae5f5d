"""The sample service of third-party carriers: quotes a price for a transport; nothing is booked by it."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field

from functions.pattern.definition import Json
from functions.services.service import SampleService

_CARRIERS = ("Harbour Freight Lines", "Northway Couriers", "Valley Express")
_BASE_PRICE = Decimal("7.50")
_PRICE_PER_KM = Decimal("0.35")


class Transport(BaseModel):
    """What is to be transported, and how far."""

    model_config = ConfigDict(extra="forbid")

    weight_kg: Annotated[float, Field(gt=0, le=1_000)]
    distance_km: Annotated[Decimal, Field(gt=0, le=25_000, decimal_places=1)]


def _confirm(transport_id: str, transport: Transport) -> Json:
    price = _BASE_PRICE + transport.distance_km * _PRICE_PER_KM
    carrier = _CARRIERS[crc32(transport_id.encode()) % len(_CARRIERS)]
    return {"carrier": carrier, "price": f"{price:.2f}", "currency": "EUR"}


TRANSPORTS = SampleService("transports", table="Transports", order=Transport, confirm=_confirm)
