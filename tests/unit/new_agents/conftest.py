"""A remote service that the test commands, the access of an Agent to it, and calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from functions.agents.agent_call import AgentCall
from functions.agents.http_agent import RemoteService
from functions.core.record import Direction
from functions.web.service_credentials import Credential
from tests.fakes.chance import Least
from tests.fakes.remote_service import Answer, RemoteServiceFake
from tests.fakes.storage_process import virtual_now

KEY = "task-1.0a1b2c3d/payment/do"


class Service(RemoteServiceFake):
    """The remote service of a test."""

    def __init__(self, session: aiohttp.ClientSession, once: aiohttp.ClientSession) -> None:
        super().__init__()
        self._session, self._once = session, once

    def access(
        self,
        *,
        address: str = "",
        credential: Credential | None = None,
        once: aiohttp.ClientSession | None = None,
    ) -> RemoteService:
        """Return the access of an Agent."""
        return RemoteService(
            name="payment",
            address=address or f"{self.address}/payments/",
            now=virtual_now,
            session=lambda: self._session,
            once_session=lambda: once or self._once,
            credential=credential,
            random=Least(),
        )

    @property
    def requests(self) -> list[tuple[str, str, str | None]]:
        """Return method, path and key of each request."""
        return [(each.method, each.path, each.headers.get("Idempotency-Key")) for each in self.received]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    """Run a service for the length of a test."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession() as session, aiohttp.ClientSession(connector=connector) as once:
        service = Service(session, once)
        async with service.running():
            yield service


def new_call(seconds: float = 10, **fields: Any) -> AgentCall:
    """Return a call with `seconds` until its deadline."""
    values: dict[str, Any] = {
        "task": "task-1",
        "step": "payment",
        "direction": Direction.DO,
        "effect_key": KEY,
        "request": '{"amount":"4.90"}',
        "complete_by": virtual_now() + timedelta(seconds=seconds),
        "start_id": "start-id-of-this-call",
        "epoch": 1,
        "idempotent": True,
    }
    return AgentCall(**values | fields)


def saying(content: object, status: int = 200) -> Answer:
    """Return an answer with JSON."""
    return Answer(status, (json.dumps(content).encode(),))
