"""The sample account service: tells whether an account is suspended."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict

from functions.services.resources import Resources
from functions.services.service import SERVICES_PATH, ResourceId

ACCOUNTS = "accounts"
ACCOUNTS_TABLE = "Accounts"


class Standing(BaseModel):
    """How an account stands."""

    model_config = ConfigDict(extra="forbid")

    suspended: bool


class AccountView(Standing):
    """An account."""

    id: str


def account_routes(accounts: Resources) -> APIRouter:
    """Serve the accounts. As this is a sample, an account that nobody has put is there, and active."""
    router = APIRouter(prefix=f"{SERVICES_PATH}/{ACCOUNTS}")

    @router.put("/{account_id}")
    async def put(account_id: ResourceId, standing: Standing) -> Response:
        """Suspend the account, or let it be active again."""
        return Response(status_code=await accounts.put(account_id, standing.model_dump()))

    @router.get("/{account_id}")
    async def get(account_id: ResourceId) -> AccountView:
        """Show the account."""
        found = await accounts.find(account_id)
        return AccountView(id=account_id, suspended=found is not None and found["suspended"])

    return router
