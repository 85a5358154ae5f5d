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

MakeRemote = Callable[..., RemoteService]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Let no time limit of a test pass because the machine is busy."""
    return {"virtual": VirtualLoop}


@pytest.fixture
async def service() -> AsyncIterator[RemoteServiceFake]:
    """Run a service for the length of a test."""
    async with RemoteServiceFake().running() as service:
        yield service


@pytest.fixture
def clock() -> FakeClock:
    """Give the time of the test."""
    return FakeClock()


@pytest.fixture
async def make_remote(service: RemoteServiceFake, clock: FakeClock) -> AsyncIterator[MakeRemote]:
    """Give a maker of callers of the service, with the breaker's limits as its arguments."""
    once = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession() as session, aiohttp.ClientSession(connector=once) as once_session:

        def make(
            *,
            threshold: int = 100,
            open_seconds: float = 60,
            address: str = "",
            credential: Credential | None = None,
            once: aiohttp.ClientSession = once_session,
            rows: MemoryBreakerRows | None = None,
        ) -> RemoteService:
            policy = BreakerPolicy(failures=threshold, open_for=timedelta(seconds=open_seconds))
            ports = fake_ports(clock=clock, breakers=rows or MemoryBreakerRows())
            return RemoteService(
                "payment",
                address or f"{service.address}/payments/",
                ports,
                credential=credential,
                session=lambda: session,
                once_session=lambda: once,
                breaker=Breaker("payment", ports, policy),
                random=Least(),
            )

        yield make
