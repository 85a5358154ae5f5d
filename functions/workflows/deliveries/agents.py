"""The Agents of the five services of a delivery."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, StrictBool

from functions.agents.agent_call import RefusedError
from functions.agents.http_agent import Call, HttpAgent, content_of, resource_of
from functions.workflows.deliveries.models import Assignment, Label, Quote, Schedule


class Account(BaseModel):
    """The state of an account."""

    suspended: StrictBool


class AccountAgent(HttpAgent):
    """Checks the account: `GET {url}/{account id}`. It changes nothing."""

    async def do(self, call: Call) -> None:
        """Check the account of the request. Raises `RefusedError` if it is suspended."""
        account: str = content_of(call)["account"]
        if (await self.read(account, call, returns=Account)).suspended:
            raise RefusedError(f"account {account} is suspended")


class BookingAgent(HttpAgent):
    """Books once under one id: `PUT {url}/{task}.{run id}`, then `GET` of the confirmation.

    The service answers a repeated `PUT` with 204 and no content, so that only `GET` returns the confirmation.
    """

    confirmation: type[BaseModel]

    async def do(self, call: Call) -> BaseModel:
        """Book, and return the confirmation."""
        await self.put(resource_of(call), call.request, call)
        return await self.read(resource_of(call), call, returns=self.confirmation)


class CancellableBookingAgent(BookingAgent):
    """Books, and cancels the booking."""

    async def undo(self, call: Call) -> None:
        """Cancel the booking, or prevent it: `DELETE` leaves a tombstone."""
        await self.delete(resource_of(call), call)


class PackageAgent(CancellableBookingAgent):
    """Labels packages."""

    confirmation = Label


class TransportAgent(BookingAgent):
    """Requests quotes of transports; a quote is not undone."""

    confirmation = Quote


class DroneAgent(CancellableBookingAgent):
    """Assigns drones."""

    confirmation = Assignment


class DeliveryAgent(CancellableBookingAgent):
    """Schedules deliveries."""

    confirmation = Schedule


AGENTS: Mapping[str, type[HttpAgent]] = {
    "account": AccountAgent,
    "package": PackageAgent,
    "transport": TransportAgent,
    "drone": DroneAgent,
    "delivery": DeliveryAgent,
}
