"""The Agent of the service of third-party carriers."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, Field

from functions.agents.booking import BookingAgent


class Quote(BaseModel):
    """Who would carry the package, and for how much, in `currency` (ISO 4217)."""

    carrier: Annotated[str, Field(min_length=1, max_length=100)]
    price: Annotated[Decimal, Field(ge=0)]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class TransportAgent(BookingAgent):
    """Has a transport quoted. Nothing is booked by it, so that nothing is to be undone."""

    confirmation = Quote
