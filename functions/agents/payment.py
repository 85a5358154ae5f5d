"""The Agent of the payment service."""

from __future__ import annotations

from functions.agents.remote import RemoteService
from functions.pattern.definition import Json
from functions.pattern.ports import AgentCall


class PaymentAgent:
    """Takes the money: `PUT /payments/{task id}`, so that a repeated call pays once."""

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    async def do(self, call: AgentCall) -> Json:
        """Make the payment."""
        return await self._service.put(call.task, call.request, call.effect_key, call.complete_by)

    async def undo(self, call: AgentCall) -> None:
        """Give the money back, or keep it from being taken: `DELETE` leaves a tombstone."""
        await self._service.delete(call.task, call.effect_key, call.complete_by)
