"""Tokens of the application's managed identity; on a developer's machine, of whoever is signed in."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from azure.core.exceptions import AzureError

from functions.agents.credentials import Token
from functions.pattern.errors import TransientError


class ManagedIdentity:
    """Issues tokens to the identity with that client id, or to the only one; nothing happens before."""

    def __init__(self, client_id: str | None) -> None:
        self._client_id = client_id

    async def issue(self, scope: str) -> Token:
        """Get a new token. Raises `TransientError`: a role that is missing may come."""
        try:
            issued = await self._credential.get_token(scope)
        except AzureError as fault:
            raise TransientError(type(fault).__name__) from fault
        return Token(issued.token, datetime.fromtimestamp(issued.expires_on, UTC))

    @cached_property
    def _credential(self) -> Any:
        # Only where a service asks for tokens.
        from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - see above

        return DefaultAzureCredential(managed_identity_client_id=self._client_id)
