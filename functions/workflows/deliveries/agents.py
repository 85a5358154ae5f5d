"""The Agents of a delivery's five services."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, Field, StrictBool

from functions.agents.catalog import AgentMaker
from functions.agents.remote import RemoteService
from functions.agents.rest import read_answer
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError
from functions.pattern.ports import AgentCall
from functions.workflows.deliveries.models import Text


class Account(BaseModel):
    """The state of an account."""

    suspended: StrictBool


class AccountAgent:
    """Checks that the account may be used: `GET {url}/{account id}`. There is nothing to undo."""

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    async def do(self, call: AgentCall) -> Json:
        """Check the account that the request names. Raises `PermanentError` when it is suspended."""
        account: str = call.request["account"]
        answer = await self._service.get(account, call.complete_by, call.complete_within)
        if read_answer(Account, answer).suspended:
            raise PermanentError(f"account {account} is suspended")
        return {}


class BookingAgent:
    """Books once, however often it is called: `PUT {url}/{task id}.{birth}`, then `GET` for the confirmation.

    A service answers 204 without content when it had booked before, for example when its first answer was
    lost. So the confirmation is always read with `GET`; its fields become the step's result.
    """

    def __init__(self, confirmation: type[BaseModel], service: RemoteService) -> None:
        self._confirmation = confirmation
        self._service = service

    async def do(self, call: AgentCall) -> Json:
        """Book, and give the confirmation."""
        await self._service.put(call.resource, call.request, call)
        return self.read(await self._service.get(call.resource, call.complete_by, call.complete_within))

    def read(self, answer: Json) -> Json:
        """Give the confirmation's fields."""
        return read_answer(self._confirmation, answer).model_dump(mode="json")


class CancellableBookingAgent(BookingAgent):
    """Books, and can cancel the booking."""

    async def undo(self, call: AgentCall) -> None:
        """Cancel the booking, or prevent it: `DELETE` leaves a tombstone."""
        await self._service.delete(call.resource, call)


class Label(BaseModel):
    """The number under which a package is tracked."""

    tracking_number: Text


class Quote(BaseModel):
    """Who would carry the package, and at which price, in `currency` (ISO 4217); it books nothing."""

    carrier: Text
    price: Annotated[Decimal, Field(ge=0)]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class Assignment(BaseModel):
    """The drone that was assigned."""

    drone: Text


class Schedule(BaseModel):
    """When the package is expected to arrive, with a time zone."""

    expected_at: AwareDatetime


AGENTS: Mapping[str, AgentMaker] = {
    "account": AccountAgent,
    "package": partial(CancellableBookingAgent, Label),
    "transport": partial(BookingAgent, Quote),
    "drone": partial(CancellableBookingAgent, Assignment),
    "delivery": partial(CancellableBookingAgent, Schedule),
}
