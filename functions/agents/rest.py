"""The Agent of a remote service with the plainest interface: `PUT` does, `DELETE` undoes."""

from __future__ import annotations

from functions.agents.remote import RemoteService
from functions.pattern.definition import Json
from functions.pattern.ports import AgentCall


class RestAgent:
    """Wraps `PUT /{task id}`, which is idempotent, and `DELETE /{task id}`, which leaves a tombstone."""

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    async def do(self, call: AgentCall) -> Json:
        """Make the resource of this task be as the request says; repeated, it is made once."""
        return await self._service.put(call.task, call.request, call.effect_key, call.complete_by)

    async def undo(self, call: AgentCall) -> None:
        """Take the resource away, and keep it from being made by a request that is still on its way."""
        await self._service.delete(call.task, call.effect_key, call.complete_by)
