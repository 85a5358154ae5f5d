"""What Agents have in common whose service makes something under the task's id, and tells what it made."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel

from functions.agents.answers import read_answer
from functions.agents.remote import RemoteService
from functions.pattern.definition import Json
from functions.pattern.ports import AgentCall


class BookingAgent:
    """Books once, however often it is called: `PUT {url}/{task id}`; then `GET` for what was confirmed.

    A service answers 204 without content when it had booked before, as after an answer that was lost. So
    the confirmation is always read, rather than taken from the answer where there is one.
    """

    #: What the service must confirm, and all of it that becomes the step's result.
    confirmation: ClassVar[type[BaseModel]]

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    async def do(self, call: AgentCall) -> Json:
        """Book, and give the confirmation."""
        await self._service.put(call.task, call.request, call.effect_key, call.complete_by)
        answer = await self._service.get(call.task, call.complete_by)
        return read_answer(self.confirmation, answer).model_dump(mode="json")


class CancellableBookingAgent(BookingAgent):
    """Can give back what it booked, too."""

    async def undo(self, call: AgentCall) -> None:
        """Give it back, or keep it from being booked: `DELETE` leaves a tombstone."""
        await self._service.delete(call.task, call.effect_key, call.complete_by)
