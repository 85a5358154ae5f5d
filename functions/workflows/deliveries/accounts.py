"""The sample service of accounts; loaded with the first request to a sample service."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict

from functions.services.resources import ResourceId, Resources


class Standing(BaseModel):
    """The state of an account."""

    model_config = ConfigDict(extra="forbid")

    suspended: bool


class AccountView(Standing):
    """An account."""

    id: str


def add_account_routes(router: APIRouter, accounts: Resources) -> None:
    """Serve the accounts. An account that nobody has created exists and is active."""

    @router.put("/{account_id}")
    async def put(account_id: ResourceId, standing: Standing) -> Response:
        """Suspend the account, or make it active again."""
        return Response(status_code=await accounts.put(account_id, standing.model_dump()))

    @router.get("/{account_id}")
    async def get(account_id: ResourceId) -> AccountView:
        """Show the account."""
        found = await accounts.find(account_id)
        return AccountView(id=account_id, suspended=found is not None and found["suspended"])
