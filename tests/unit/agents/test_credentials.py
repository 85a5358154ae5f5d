"""What a service asks its callers for is in each request, and in no log."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest
from pydantic import SecretStr

from functions.agents.credentials import BearerToken, Token, credential_of
from functions.agents.endpoints import Endpoint
from functions.pattern.errors import NotSentError, TransientError
from tests.fakes.clock import FakeClock

SCOPE = "api://payments/.default"
HOUR = 3_600


class Issuer:
    """Issues tokens that are good for an hour; fails while `failing`."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.scopes: list[str] = []
        self.failing = False
        self.lifetime = HOUR

    async def issue(self, scope: str) -> Token:
        """Give the next one."""
        self.scopes.append(scope)
        await asyncio.sleep(0)
        if self.failing:
            raise TransientError("ClientAuthenticationError")
        number = len(self.scopes)
        return Token(f"canary-{number}", self.clock.now() + timedelta(seconds=self.lifetime))


@pytest.fixture
def issuer(clock: FakeClock) -> Issuer:
    """Make an issuer."""
    return Issuer(clock)


@pytest.fixture
def token(issuer: Issuer, clock: FakeClock) -> BearerToken:
    """Make what keeps its tokens."""
    return BearerToken(SCOPE, issuer, clock)


async def _shown(token: BearerToken) -> str:
    return (await token.headers())["Authorization"]


async def test_token_is_kept_until_shortly_before_it_expires(
    token: BearerToken, issuer: Issuer, clock: FakeClock
) -> None:
    """One request for an hour of calls."""
    assert await _shown(token) == "Bearer canary-1"
    clock.advance(HOUR - 301)
    assert await _shown(token) == "Bearer canary-1"
    clock.advance(1)
    assert await _shown(token) == "Bearer canary-2"
    assert issuer.scopes == [SCOPE, SCOPE]


async def test_token_of_a_short_life_is_kept_for_half_of_it(
    token: BearerToken, issuer: Issuer, clock: FakeClock
) -> None:
    """Not asked for again with every call."""
    issuer.lifetime = 60
    await _shown(token)
    clock.advance(29)
    assert await _shown(token) == "Bearer canary-1"
    clock.advance(1)
    assert await _shown(token) == "Bearer canary-2"


async def test_calls_at_the_same_moment_share_a_token(token: BearerToken, issuer: Issuer) -> None:
    """The issuer limits how often it is asked."""
    assert set(await asyncio.gather(*(_shown(token) for _ in range(20)))) == {"Bearer canary-1"}
    assert len(issuer.scopes) == 1


async def test_token_serves_while_it_cannot_be_renewed(
    token: BearerToken, issuer: Issuer, clock: FakeClock
) -> None:
    """Until it expires; the issuer is left alone for a while."""
    await _shown(token)
    issuer.failing = True
    clock.advance(HOUR - 300)
    assert [await _shown(token) for _ in range(3)] == ["Bearer canary-1"] * 3
    assert len(issuer.scopes) == 2
    clock.advance(299)
    assert await _shown(token) == "Bearer canary-1"
    clock.advance(1)
    with pytest.raises(NotSentError, match=rf"^no token for {SCOPE} \(ClientAuthenticationError\)$"):
        await _shown(token)
    issuer.failing = False
    assert await _shown(token) == f"Bearer canary-{len(issuer.scopes)}"


async def test_no_token_and_no_key_is_in_a_log_or_a_representation(
    token: BearerToken, issuer: Issuer, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong."""
    caplog.set_level(logging.DEBUG)
    await _shown(token)
    issuer.failing = True
    clock.advance(HOUR - 1)
    await _shown(token)
    key = credential_of(Endpoint("https://a.example", SecretStr("canary")), issuer, clock)
    shown = [caplog.text, repr(key), repr(Token("canary", clock.now())), repr(token)]
    assert "can't be renewed now" in caplog.text
    assert [text for text in shown if "canary" in text] == []


async def test_service_gets_what_it_asks_for(issuer: Issuer, clock: FakeClock) -> None:
    """A key in its header, a token, or nothing."""
    asked = [
        Endpoint("https://a.example", SecretStr("pay")),
        Endpoint("https://a.example", SecretStr("pay"), header="X-Key"),
        Endpoint("https://a.example", scope=SCOPE),
    ]
    credentials = [credential_of(endpoint, issuer, clock) for endpoint in asked]
    assert [await each.headers() for each in credentials if each is not None] == [
        {"x-functions-key": "pay"},
        {"X-Key": "pay"},
        {"Authorization": "Bearer canary-1"},
    ]
    assert credential_of(Endpoint("https://a.example"), issuer, clock) is None
