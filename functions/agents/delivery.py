"""The Agent of the delivery service."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel

from functions.agents.booking import CancellableBookingAgent


class Schedule(BaseModel):
    """When the package will be there, in UTC or with its offset."""

    expected_at: AwareDatetime


class DeliveryAgent(CancellableBookingAgent):
    """Has the delivery scheduled."""

    confirmation = Schedule
