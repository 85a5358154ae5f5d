"""The Agent of the drone service."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from functions.agents.booking import CancellableBookingAgent


class Assignment(BaseModel):
    """The drone that will come."""

    drone: Annotated[str, Field(min_length=1, max_length=100)]


class DroneAgent(CancellableBookingAgent):
    """Has a drone assigned."""

    confirmation = Assignment
