"""The Agent of the account service."""

from __future__ import annotations

from pydantic import BaseModel, StrictBool

from functions.agents.answers import read_answer
from functions.agents.remote import RemoteService
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError
from functions.pattern.ports import AgentCall


class Account(BaseModel):
    """How an account stands."""

    suspended: StrictBool


class AccountAgent:
    """Asks whether the account may be used: `GET {url}/{account id}`. Nothing is to be undone."""

    def __init__(self, service: RemoteService) -> None:
        self._service = service

    async def do(self, call: AgentCall) -> Json:
        """Check the account named in the request. Raises `PermanentError` when it is suspended."""
        account: str = call.request["account"]
        answer = await self._service.get(account, call.complete_by)
        if read_answer(Account, answer).suspended:
            raise PermanentError(f"account {account} is suspended")
        return {}
