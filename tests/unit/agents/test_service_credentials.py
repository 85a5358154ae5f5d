"""Keys and tokens that Agents send to their services."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from azure.core.credentials import AccessToken
from azure.identity import CredentialUnavailableError
from pydantic import SecretStr

from functions.service_credentials import BearerToken, HeaderKey, ManagedIdentity, NoTokenError, Token
from tests.fakes.storage_process import START

SCOPE = "api://payments/.default"
HOUR = 3_600


class Issuer:
    """Issues tokens that are valid for `lifetime` seconds; its clock stands still until a test sets it."""

    def __init__(self) -> None:
        self.time = START
        self.scopes: list[str] = []
        self.is_failing = False
        self.lifetime = HOUR

    def now(self) -> datetime:
        """Return the time."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.time += timedelta(seconds=seconds)

    async def issue(self, scope: str) -> Token:
        """Return the next token."""
        self.scopes.append(scope)
        await asyncio.sleep(0)
        if self.is_failing:
            raise NoTokenError("ClientAuthenticationError")
        return Token(f"canary-{len(self.scopes)}", self.time + timedelta(seconds=self.lifetime))


@pytest.fixture
def issuer() -> Issuer:
    """Make an issuer."""
    return Issuer()


@pytest.fixture
def sent(issuer: Issuer) -> Callable[[], object]:
    """Return a function that returns the header of one request."""
    token = BearerToken(SCOPE, issuer, issuer.now)

    async def header() -> str:
        return (await token.headers())["Authorization"]

    return header


type Sent = Callable[[], asyncio.Future[str]]


@pytest.mark.parametrize(("lifetime", "kept"), [(HOUR, HOUR - 301), (60, 29)], ids=["hour", "minute"])
async def test_token_is_cached_until_shortly_before_its_end(
    issuer: Issuer, sent: Sent, lifetime: int, kept: int
) -> None:
    """A short-lived token for half of its life."""
    issuer.lifetime = lifetime
    assert await sent() == "Bearer canary-1"
    issuer.advance(kept)
    assert await sent() == "Bearer canary-1"
    issuer.advance(1)
    assert await sent() == "Bearer canary-2"
    assert issuer.scopes == [SCOPE, SCOPE]


async def test_calls_at_the_same_moment_share_a_token(issuer: Issuer, sent: Sent) -> None:
    """The issuer limits the rate of its requests."""
    assert set(await asyncio.gather(*(sent() for _ in range(20)))) == {"Bearer canary-1"}
    assert len(issuer.scopes) == 1


async def test_valid_token_is_sent_while_it_cannot_be_renewed(
    issuer: Issuer, sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    """Until its end; the issuer is asked every 30 seconds, and no log shows a token."""
    caplog.set_level(logging.DEBUG)
    await sent()
    issuer.is_failing = True
    issuer.advance(HOUR - 300)
    assert [await sent() for _ in range(3)] == ["Bearer canary-1"] * 3
    assert len(issuer.scopes) == 2
    issuer.advance(299)
    assert await sent() == "Bearer canary-1"
    issuer.advance(1)
    with pytest.raises(NoTokenError, match=rf"^no token for {SCOPE}: ClientAuthenticationError$"):
        await sent()
    assert "is not renewed" in caplog.text
    assert "canary" not in f"{caplog.text} {Token('canary', START)!r} {HeaderKey('x', SecretStr('canary'))!r}"


@pytest.mark.parametrize("is_valid", [False, True])
async def test_call_waits_ten_seconds_for_a_token(
    issuer: Issuer, sent: Sent, monkeypatch: pytest.MonkeyPatch, *, is_valid: bool
) -> None:
    """With a valid token, only one call waits."""

    async def hang(_scope: str) -> Token:
        await asyncio.sleep(HOUR)
        raise AssertionError

    if is_valid:
        await sent()
        issuer.advance(HOUR - 200)
    monkeypatch.setattr(issuer, "issue", hang)
    if not is_valid:
        with pytest.raises(NoTokenError, match="no answer"):
            await sent()
        return
    first = asyncio.ensure_future(sent())
    await asyncio.sleep(1)
    assert [await sent() for _ in range(3)] == ["Bearer canary-1"] * 3
    assert not first.done()
    assert await first == "Bearer canary-1"


class SdkCredential:
    """Replaces the SDK's credential."""

    made: list[str | None]
    is_failing: bool

    def __init__(self, *, managed_identity_client_id: str | None) -> None:
        self.made.append(managed_identity_client_id)

    async def get_token(self, scope: str) -> AccessToken:
        """Return a token that names its scope."""
        if self.is_failing:
            raise CredentialUnavailableError(message="canary: no identity here")
        return AccessToken(f"for {scope}", 1_800_000_000)


async def test_token_is_issued_to_the_identity_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One credential issues all of them, from its first use on; the text of the SDK is not shown."""
    monkeypatch.setattr("azure.identity.aio.DefaultAzureCredential", SdkCredential)
    monkeypatch.setattr(SdkCredential, "made", [], raising=False)
    monkeypatch.setattr(SdkCredential, "is_failing", False, raising=False)
    identity = ManagedIdentity("id-7")
    assert SdkCredential.made == []
    expires_at = datetime.fromtimestamp(1_800_000_000, UTC)
    for scope in ("api://a/.default", "api://b/.default"):
        assert await identity.issue(scope) == Token(f"for {scope}", expires_at)
    assert SdkCredential.made == ["id-7"]
    monkeypatch.setattr(SdkCredential, "is_failing", True)
    with pytest.raises(NoTokenError, match=r"^CredentialUnavailableError$"):
        await identity.issue("api://a/.default")
