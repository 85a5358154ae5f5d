"""Parcels: taken from our stock, and shipped by the logistics team; or neither."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from functions.agents.http_agent import Call, HttpAgent, content_of, resource_of
from functions.workflow import Json, Results, Step, Workflow, days
from functions.workflows_next.registration import Registration


class Parcel(BaseModel):
    """The item and its address."""

    model_config = ConfigDict(extra="forbid")

    item: str
    address: str


class Shipment(BaseModel):
    """The used part of the logistics team's answer."""

    number: str


class LogisticsAgent(HttpAgent):
    """Calls the logistics team's API, with the idempotency key in the header."""

    async def do(self, call: Call) -> Shipment:
        """Order a shipment; the same key has the same number."""
        ordered = {**content_of(call), "reference": resource_of(call)}
        return await self.post("shipments", ordered, call, returns=Shipment)

    async def undo(self, call: Call) -> None:
        """Cancel it by its number; if that is unknown, by the reference, also before it is made."""
        await self.post("cancellations", {**content_of(call), "reference": resource_of(call)}, call)


def _stock(parcel: Parcel, _results: Results) -> Json:
    return {"item": parcel.item}


def _shipment(parcel: Parcel, _results: Results) -> Json:
    return {"address": parcel.address}


def _cancellation(_parcel: Parcel, _results: Results, own: Shipment | None) -> Json:
    return {"number": None if own is None else own.number}


def _output(_parcel: Parcel, results: Results) -> Json:
    return {"shipment": results[SHIPMENT].number}


STOCK = Step("stock", request=_stock, complete_within=20, undo=True)
SHIPMENT = Step(
    "shipment",
    agent="logistics",
    needs=[STOCK],
    request=_shipment,
    result=Shipment,
    complete_within=60,
    undo=_cancellation,
)

PARCELS = Workflow(
    "parcel",
    resource="parcels",
    payload=Parcel,
    steps=[STOCK, SHIPMENT],
    on_failure="compensate",
    cancel_within=days(1),
    output=_output,
)

REGISTRATION = Registration(PARCELS, agents={"logistics": LogisticsAgent})
