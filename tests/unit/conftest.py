"""The time of unit tests, and a remote service that the test commands, with the access of an Agent to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from random import Random

import aiohttp
import pytest

from functions.agents.http_agent import RemoteService
from functions.http.destinations import new_session
from functions.service_credentials import Credential
from tests.fakes.clock import FakeClock
from tests.fakes.remote_service import RemoteServiceFake
from tests.fakes.storage_process import virtual_now
from tests.fakes.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Let no time limit of a test pass because the machine is busy."""
    return {"virtual": VirtualLoop}


@pytest.fixture
def clock() -> FakeClock:
    """Return the time of the test."""
    return FakeClock()


class Least(Random):
    """Always returns the lowest value, so that waits are shortest."""

    def random(self) -> float:
        """Return the lowest number that can be drawn."""
        return 0.0


class Service(RemoteServiceFake):
    """The remote service of a test."""

    def __init__(self, session: aiohttp.ClientSession, once: aiohttp.ClientSession) -> None:
        super().__init__()
        self.session, self._once = session, once

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
            session=lambda: self.session,
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
    async with new_session(aiohttp.TCPConnector()) as session, new_session(connector) as once:
        service = Service(session, once)
        async with service.running():
            yield service
