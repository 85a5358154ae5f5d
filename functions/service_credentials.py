"""The credentials that are sent to remote services: keys, and tokens of an identity. Times are UTC."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Protocol

from azure.core.exceptions import AzureError
from pydantic import SecretStr

_log = logging.getLogger(__name__)

_ISSUE_SECONDS = 10
#: A token is renewed this long before its end, or at half of its life if that is later.
_RENEWED_BEFORE = timedelta(minutes=5)
#: Time between two attempts to renew a token that is still valid.
_RENEWAL_PAUSE = timedelta(seconds=30)


class NoTokenError(Exception):
    """The application has no token for a service now. Nothing was sent to the service."""


class Credential(Protocol):
    """The credential of one remote service."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of one request. Raises `NoTokenError`."""


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token and its end."""

    text: str = field(repr=False)
    expires_at: datetime


class TokenIssuer(Protocol):
    """Issues tokens to the identity of the application."""

    async def issue(self, scope: str) -> Token:
        """Return a new token for a scope. Raises `NoTokenError`."""


@dataclass(frozen=True, slots=True)
class HeaderKey:
    """A key in a header."""

    header: str
    key: SecretStr

    async def headers(self) -> Mapping[str, str]:
        """Return the header with the key."""
        return {self.header: self.key.get_secret_value()}


class BearerToken:
    """A cached token for one scope. One call renews it; others wait only without a valid token."""

    def __init__(self, scope: str, issuer: TokenIssuer, now: Callable[[], datetime]) -> None:
        self._scope, self._issuer, self._now = scope, issuer, now
        self._token: Token | None = None
        self._renew_at = now()
        self._renewing = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """Return the header with a valid token. Raises `NoTokenError`."""
        token = self._current() or await self._renewed()
        return {"Authorization": f"Bearer {token.text}"}

    def forget(self) -> None:
        """Discard the token, because the service rejected it."""
        self._token = None

    def _current(self) -> Token | None:
        return self._token if self._now() < self._renew_at else None

    async def _renewed(self) -> Token:
        async with self._renewing:
            current = self._current()  # another call may have renewed it
            if current is not None:
                return current
            if self._token is not None:  # other calls send it until the next attempt
                self._renew_at = min(self._now() + _RENEWAL_PAUSE, self._token.expires_at)
            try:
                async with asyncio.timeout(_ISSUE_SECONDS):
                    token = await self._issuer.issue(self._scope)
            except (NoTokenError, TimeoutError) as fault:
                reason, old = str(fault) or "no answer", self._token
                if old is None or old.expires_at <= self._now():
                    raise NoTokenError(f"no token for {self._scope}: {reason}") from fault
                _log.warning("the token for %s is not renewed: %s", self._scope, reason)
                return old
            left = token.expires_at - self._now()
            self._token, self._renew_at = token, token.expires_at - min(_RENEWED_BEFORE, left / 2)
            return token


class ManagedIdentity:
    """Issues tokens to the identity `client_id`, by default the only one. It connects at its first use."""

    def __init__(self, client_id: str | None) -> None:
        self._client_id = client_id

    async def issue(self, scope: str) -> Token:
        """Return a new token. Raises `NoTokenError`, also while a role is missing."""
        try:
            issued = await self._credential.get_token(scope)
        except AzureError as fault:
            raise NoTokenError(type(fault).__name__) from fault
        return Token(issued.token, datetime.fromtimestamp(issued.expires_on, UTC))

    @cached_property
    def _credential(self) -> Any:
        from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - imported at its first use

        return DefaultAzureCredential(managed_identity_client_id=self._client_id)
