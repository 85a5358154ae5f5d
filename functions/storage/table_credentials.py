"""Signs requests to Table Storage: with the key of the account (local runs), or with a managed identity."""

from __future__ import annotations

import asyncio
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from time import time
from typing import Any, Protocol
from urllib.parse import urlsplit

from functions.storage.table_contract import TransientStorageError

_SCOPE = "https://storage.azure.com/.default"
#: Seconds before its end at which a token is renewed, and between two attempts to renew a valid token.
_RENEWED_BEFORE = 300
_RENEWAL_PAUSE = 30
#: The public account of the storage emulator.
_EMULATOR = {
    "AccountName": "devstoreaccount1",
    "AccountKey": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "TableEndpoint": "http://127.0.0.1:10002/devstoreaccount1",
}


class AccessToken(Protocol):
    """A token of azure-identity; `expires_on` is in seconds since 1970."""

    @property
    def token(self) -> str: ...  # noqa: D102 - as azure-core
    @property
    def expires_on(self) -> int: ...  # noqa: D102 - as azure-core


class TokenSource(Protocol):
    """An asynchronous credential of azure-identity."""

    async def get_token(self, *scopes: str) -> AccessToken:
        """Return a new or cached token."""


class RequestSigner(Protocol):
    """Makes the headers that authorize requests to one account."""

    async def headers(self, path: str) -> Mapping[str, str]:
        """Return the headers of a request to `path`, quoted as it is sent. Raises `TransientStorageError`."""

    def reject(self) -> None:
        """Forget a token that the service rejected."""


@dataclass(frozen=True, slots=True)
class StorageAccount:
    """An account: the address of its tables without a slash at its end, and its name and key."""

    address: str
    name: str
    key: str = field(repr=False)


def parse_connection_string(text: str) -> StorageAccount:
    """Return the account of a connection string. Raises `ValueError`, whose text holds no part of it."""
    parts = dict(part.split("=", 1) for part in text.strip().strip(";").split(";") if "=" in part)
    if parts.get("UseDevelopmentStorage", "").lower() == "true":
        parts = _EMULATOR
    try:
        name, key = parts["AccountName"], parts["AccountKey"]
        b64decode(key, validate=True)
    except (KeyError, ValueError):
        raise ValueError("not a connection string with AccountName and AccountKey") from None
    scheme, suffix = parts.get("DefaultEndpointsProtocol", "https"), parts.get("EndpointSuffix")
    address = parts.get("TableEndpoint") or f"{scheme}://{name}.table.{suffix or 'core.windows.net'}"
    return StorageAccount(address.rstrip("/"), name, key)


class SharedKeySigner:
    """Signs with the key of the account (Shared Key Lite)."""

    def __init__(self, account: StorageAccount, clock: Callable[[], float] = time) -> None:
        self._account, self._clock = account, clock
        self._key = b64decode(account.key)
        self._signed = lru_cache(maxsize=16)(self._sign)

    async def headers(self, path: str) -> Mapping[str, str]:
        """Return the signature of a path, which is valid for any content."""
        return self._signed(path, int(self._clock()))

    def reject(self) -> None:
        """Do nothing: the key stays the same."""

    def _sign(self, path: str, second: int) -> Mapping[str, str]:
        date = formatdate(second, usegmt=True)
        text = f"{date}\n/{self._account.name}{path}"
        signature = b64encode(hmac.digest(self._key, text.encode(), "sha256")).decode("ascii")
        return {"x-ms-date": date, "Authorization": f"SharedKeyLite {self._account.name}:{signature}"}


class IdentitySigner:
    """Sends the token of an identity. The token is cached and renewed before it expires."""

    def __init__(self, source: TokenSource, clock: Callable[[], float] = time) -> None:
        self._source, self._clock = source, clock
        self._token: AccessToken | None = None
        self._renewal = asyncio.Lock()
        self._next_renewal = 0.0

    async def headers(self, path: str) -> Mapping[str, str]:  # noqa: ARG002 - a token is for all paths
        """Return the token. A renewal that fails has no effect as long as the cached token is valid."""
        if not self._is_fresh():
            async with self._renewal:
                if not self._is_fresh():
                    await self._renew()
        if self._token is None:
            raise TransientStorageError("no token")
        date = formatdate(int(self._clock()), usegmt=True)
        return {"x-ms-date": date, "Authorization": f"Bearer {self._token.token}"}

    def reject(self) -> None:
        """Forget the token, so that the next request requests another one."""
        self._token = None

    def _is_fresh(self) -> bool:
        """Return whether the cached token needs no renewal now."""
        if self._token is None:
            return False
        now = self._clock()
        is_valid = now < self._token.expires_on
        return is_valid and (now < self._token.expires_on - _RENEWED_BEFORE or now < self._next_renewal)

    async def _renew(self) -> None:
        now = self._clock()
        self._next_renewal = now + _RENEWAL_PAUSE
        try:
            self._token = await self._source.get_token(_SCOPE)
        except Exception as error:
            if self._token is None or self._token.expires_on <= now:
                raise TransientStorageError(f"no token: {type(error).__name__}") from error


def identity_signer(client_id: str | None) -> tuple[IdentitySigner, Any]:
    """Return the signer of this host's identity, and the credential to close at the end."""
    from azure.identity.aio import DefaultAzureCredential  # noqa: PLC0415 - its import takes long

    credential = DefaultAzureCredential(managed_identity_client_id=client_id)
    return IdentitySigner(credential), credential


def path_of(address: str) -> str:
    """Return the path of an address, which is a part of its signature."""
    return urlsplit(address).path
