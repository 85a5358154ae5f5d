"""The Agent of the package service."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from functions.agents.booking import CancellableBookingAgent


class Label(BaseModel):
    """What a package is known by from now on."""

    tracking_number: Annotated[str, Field(min_length=1, max_length=100)]


class PackageAgent(CancellableBookingAgent):
    """Has the package labelled."""

    confirmation = Label
