"""The time of unit tests; a remote service that the test commands, and the Agent's side of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta

import aiohttp
import pytest

from functions.agents.breaker import Breaker
from functions.agents.credentials import Credential
from functions.agents.remote import RemoteService
from functions.pattern.breaker import BreakerPolicy
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.chance import Least
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.remote_service import RemoteServiceFake
from tests.fakes.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Let no time limit of a test pass because the machine is busy."""
    return {"virtual": VirtualLoop}


@pytest.fixture
def clock() -> FakeClock:
    """Give the time of the test."""
    return FakeClock()


class Service(RemoteServiceFake):
    """The remote service of a test, and the Agents' callers of it."""

    def __init__(self, clock: FakeClock, session: aiohttp.ClientSession, once: aiohttp.ClientSession) -> None:
        super().__init__()
        self.clock, self.session, self._once = clock, session, once

    def caller(
        self,
        *,
        threshold: int = 100,
        open_seconds: float = 60,
        address: str = "",
        credential: Credential | None = None,
        once: aiohttp.ClientSession | None = None,
        rows: MemoryBreakerRows | None = None,
    ) -> RemoteService:
        """Return a caller of the service; its circuit opens after `threshold` failures."""
        policy = BreakerPolicy(failures=threshold, open_for=timedelta(seconds=open_seconds))
        ports = fake_ports(clock=self.clock, breakers=rows or MemoryBreakerRows())
        return RemoteService(
            "payment",
            address or f"{self.address}/payments/",
            ports,
            credential=credential,
            session=lambda: self.session,
            once_session=lambda: once or self._once,
            breaker=Breaker("payment", ports, policy),
            random=Least(),
        )


@pytest.fixture
async def service(clock: FakeClock) -> AsyncIterator[Service]:
    """Run a service for the length of a test."""
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession() as session, aiohttp.ClientSession(connector=connector) as once:
        service = Service(clock, session, once)
        async with service.running():
            yield service
