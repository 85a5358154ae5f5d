"""How an Agent proves to its remote service who calls: with a key, or with a token of an identity."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Protocol

from azure.core.exceptions import AzureError
from pydantic import SecretStr

from functions.agents.endpoints import Endpoint
from functions.pattern.errors import NotSentError, TransientError
from functions.pattern.ports import Clock

_log = logging.getLogger(__name__)


class Credential(Protocol):
    """What a remote service asks its callers for."""

    async def headers(self) -> Mapping[str, str]:
        """Give the headers of one request. Raises `NotSentError`."""


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token, and when it expires (UTC)."""

    text: str = field(repr=False)
    expires_at: datetime


class TokenIssuer(Protocol):
    """Issues tokens to the application's identity."""

    async def issue(self, scope: str) -> Token:
        """Give a new token for a scope. Raises `TransientError`."""


def credential_of(endpoint: Endpoint, issuer: TokenIssuer, clock: Clock) -> Credential | None:
    """Give what the service asks for, or None when it asks for nothing."""
    if endpoint.scope is not None:
        return BearerToken(endpoint.scope, issuer, clock)
    return None if endpoint.key is None else KeyInHeader(endpoint.header, endpoint.key)


@dataclass(frozen=True, slots=True)
class KeyInHeader:
    """A secret that stays the same."""

    header: str
    key: SecretStr

    async def headers(self) -> Mapping[str, str]:
        """Give the one header."""
        return {self.header: self.key.get_secret_value()}


class BearerToken:
    """A token that is kept and renewed before it expires; calls at the same moment wait for one renewal."""

    def __init__(self, scope: str, issuer: TokenIssuer, clock: Clock) -> None:
        self._scope = scope
        self._issuer = issuer
        self._clock = clock
        self._token: Token | None = None
        self._renew_at = clock.now()
        self._renewing = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """Give the header with a token that has not expired. Raises `NotSentError`."""
        token = self._current() or await self._renewed()
        return {"Authorization": f"Bearer {token.text}"}

    def _current(self) -> Token | None:
        return self._token if self._clock.now() < self._renew_at else None

    async def _renewed(self) -> Token:
        async with self._renewing:
            current = self._current()  # another call may have renewed it meanwhile
            if current is not None:
                return current
            try:
                async with asyncio.timeout(10):
                    token = await self._issuer.issue(self._scope)
            except TransientError as fault:
                return self._old(fault)
            except TimeoutError:
                return self._old(TransientError("no answer"))
            left = token.expires_at - self._clock.now()
            self._token, self._renew_at = token, token.expires_at - min(timedelta(minutes=5), left / 2)
            return token

    def _old(self, fault: TransientError) -> Token:
        """Give the token that can't be renewed now, until it expires. Raises `NotSentError`."""
        now = self._clock.now()
        if self._token is None or self._token.expires_at <= now:
            raise NotSentError(f"no token for {self._scope} ({fault})") from fault
        _log.warning("the token for %s can't be renewed now (%s)", self._scope, fault)
        self._renew_at = min(now + timedelta(seconds=30), self._token.expires_at)
        return self._token


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
        from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - see above

        return DefaultAzureCredential(managed_identity_client_id=self._client_id)
