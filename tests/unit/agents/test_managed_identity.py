"""Tokens come from the application's identity, by the same library as for its other connections."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from azure.core.credentials import AccessToken
from azure.identity import CredentialUnavailableError

from functions.agents.credentials import ManagedIdentity, Token
from functions.pattern.errors import TransientError


class Credential:
    """Stands in for the SDK's."""

    made: list[str | None]
    failing: bool

    def __init__(self, *, managed_identity_client_id: str | None) -> None:
        self.made.append(managed_identity_client_id)

    async def get_token(self, scope: str) -> AccessToken:
        """Give a token that names the scope."""
        if self.failing:
            raise CredentialUnavailableError(message="canary: no identity here")
        return AccessToken(f"for {scope}", 1_800_000_000)


@pytest.fixture(autouse=True)
def _sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azure.identity.aio.DefaultAzureCredential", Credential)
    monkeypatch.setattr(Credential, "made", [], raising=False)
    monkeypatch.setattr(Credential, "failing", False, raising=False)


async def test_token_is_issued_to_the_identity_of_the_settings() -> None:
    """One credential issues all of them, and only when one is wanted."""
    identity = ManagedIdentity("id-7")
    assert Credential.made == []
    expires_at = datetime.fromtimestamp(1_800_000_000, UTC)
    assert await identity.issue("api://a/.default") == Token("for api://a/.default", expires_at)
    assert await identity.issue("api://b/.default") == Token("for api://b/.default", expires_at)
    assert Credential.made == ["id-7"]


async def test_identity_that_gets_none_is_a_transient_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role may be on its way; the SDK's text stays inside."""
    monkeypatch.setattr(Credential, "failing", True)
    with pytest.raises(TransientError, match=r"^CredentialUnavailableError$"):
        await ManagedIdentity(None).issue("api://a/.default")
