"""The Agent of a remote service with the plainest interface, and the check of what a service answered."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from functions.agents.remote import RemoteService
from functions.pattern.definition import Json
from functions.pattern.errors import UnusableAnswerError
from functions.pattern.faults import first_fault
from functions.pattern.ports import AgentCall


class RestAgent:
    """Wraps `PUT` and `DELETE` of `/{task id}.{birth}`: both idempotent, the latter leaves a tombstone."""

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    async def do(self, call: AgentCall) -> Json:
        """Create this task's resource as the request says; a repeated call creates nothing more."""
        return await self._service.put(call.resource, call.request, call)

    async def undo(self, call: AgentCall) -> None:
        """Delete the resource, and prevent a request that is still in flight from creating it."""
        await self._service.delete(call.resource, call)


def read_answer[Answer: BaseModel](expected: type[Answer], answer: Json) -> Answer:
    """Check the answer. Raises `UnusableAnswerError` when it does not fit: a retry would get the same one."""
    try:
        return expected.model_validate(answer)
    except ValidationError as error:
        field, said = first_fault(error)
        raise UnusableAnswerError(f"the answer does not fit ({field}: {said.lower()})") from None
