"""Function keys through the local host: who acted is recorded by the name of their key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from local.platform import ANY_PORTS, ROOT, PartFailedError, Platform, PlatformOptions

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

_KEYS = {
    "api": {
        "ada": "adas-key-of-the-api",
        "role-approver": "approvers-key-of-the-api",
        "old": "not-in-settings",
    },
    "operations": {"ada": "adas-key-of-operations"},
}
_SETTINGS = {
    "KEY_API_ADA": _KEYS["api"]["ada"],
    "KEY_API_ROLE_APPROVER": _KEYS["api"]["role-approver"],
    "KEY_OPERATIONS_ADA": _KEYS["operations"]["ada"],
    "SUPERVISOR_SCHEDULE": "* * * * * *",
    "STATE_SHARDS": "2",
}
_YES = {"approved": True}
_PATIENCE = 60.0

type Answer = tuple[int, dict[str, Any]]


def _options(data: Path, settings: Mapping[str, str]) -> PlatformOptions:
    return PlatformOptions(
        ports=ANY_PORTS,
        data=data,
        app=Path(__file__).parent / "app",
        queues=ROOT / "infra" / "queues.json",
        settings=settings,
        in_memory_storage=True,
        function_keys=_KEYS,
    )


class Holder:
    """Sends requests with one key; the host's own refusals have no body."""

    def __init__(self, session: aiohttp.ClientSession, key: str) -> None:
        self._session = session
        self._headers = {"x-functions-key": key, "X-Requested-With": "test"}

    async def ask(self, method: str, path: str, body: object = None) -> Answer:
        """Send a request."""
        async with self._session.request(method, path, json=body, headers=self._headers) as answer:
            return answer.status, await answer.json(content_type=None) if answer.content_length else {}

    async def until(self, path: str, state: str) -> dict[str, Any]:
        """Look until what is there is in this state. Raises `TimeoutError`."""
        async with asyncio.timeout(_PATIENCE):
            while True:
                status, found = await self.ask("GET", path)
                if status == 200 and found["state"] == state:
                    return found
                await asyncio.sleep(0.1)


class Holders:
    """Those who have a key."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.ada = Holder(session, _KEYS["api"]["ada"])
        self.approver = Holder(session, _KEYS["api"]["role-approver"])
        self.operator = Holder(session, _KEYS["operations"]["ada"])
        self.old = Holder(session, _KEYS["api"]["old"])
        self.stranger = Holder(session, "nobodys-key-at-all")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def holders(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Holders]:
    """Run the platform."""
    options = _options(tmp_path_factory.mktemp("keys"), _SETTINGS)
    async with Platform(options) as platform, aiohttp.ClientSession(platform.addresses.host) as session:
        yield Holders(session)


async def test_events_are_recorded_by_whose_key_told_them(holders: Holders) -> None:
    """Ada submits and confirms; whoever has the approver's key sees that step only, and approves."""
    path = "/api/claims/claim-1"
    assert (await holders.ada.ask("PUT", path, {"weight": 3}))[0] == 202
    await holders.ada.until(f"{path}/events/confirm", "Running")
    assert (await holders.approver.ask("POST", f"{path}/events/confirm", _YES))[0] == 404
    assert (await holders.ada.ask("POST", f"{path}/events/confirm", _YES))[0] == 200
    shown = await holders.approver.until(f"{path}/events/approve", "Running")
    assert shown.keys() == {"id", "step", "role", "state", "since", "complete_by", "body"}
    assert (await holders.approver.ask("GET", path))[0] == 403
    assert (await holders.ada.ask("POST", f"{path}/events/approve", _YES))[0] == 403
    assert (await holders.approver.ask("POST", f"{path}/events/approve", _YES))[0] == 200
    found = await holders.operator.until("/api/ops/tasks/claim-1", "Processed")
    assert found["submitter"] == "ada"
    assert [step["told_by"] for step in found["steps"]] == ["ada", "role-approver"]


async def test_operators_action_is_recorded_by_whose_key_it_was(holders: Holders) -> None:
    """With the reason."""
    assert (await holders.ada.ask("PUT", "/api/offers/offer-1", {"weight": 3}))[0] == 202
    await holders.operator.until("/api/ops/tasks/offer-1", "Error")
    acted = await holders.operator.ask("POST", "/api/ops/tasks/offer-1/resubmit", {"reason": "they called"})
    assert acted[0] == 202
    _, found = await holders.operator.ask("GET", "/api/ops/tasks/offer-1")
    [resubmitted] = [each for each in found["history"] if each["event"] == "resubmitted"]
    assert (resubmitted["who"], resubmitted["reason"]) == ("ada", "they called")


async def test_other_keys_are_refused(holders: Holders) -> None:
    """By the host, which does not know them; and by the application, which does not know whose they are."""
    for path in ("/api/claims/claim-1", "/api/ops/tasks/claim-1"):
        assert await holders.stranger.ask("GET", path) == (401, {})
    assert await holders.approver.ask("GET", "/api/ops/tasks/claim-1") == (401, {})
    status, problem = await holders.old.ask("GET", "/api/claims/claim-1")
    assert (status, problem["title"]) == (401, "Unauthorized")


async def test_key_that_is_no_secret_stops_the_start(tmp_path: Path) -> None:
    """One line names the setting, and does not show it."""
    reference = "@Microsoft.KeyVault(SecretUri=https://kv.example.com/secrets/function--api--ada)"
    with pytest.raises(PartFailedError) as failure:
        async with Platform(_options(tmp_path, {**_SETTINGS, "KEY_API_ADA": reference})):
            pass
    assert "setting KEY_API_ADA is a reference to a vault that was not resolved" in str(failure.value)
    assert "kv.example.com" not in str(failure.value)
