"""A remote service that the test commands, and the Agent's side of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from random import Random

import aiohttp
import pytest
from purgatory import AsyncCircuitBreakerFactory

from functions.agents.remote import RemoteService
from tests.fakes.clock import FakeClock
from tests.fakes.remote_service import RemoteServiceFake

MakeRemote = Callable[..., RemoteService]


class _Shortest(Random):
    """Draws the shortest wait each time."""

    def random(self) -> float:
        return 0.0


@pytest.fixture
async def service() -> AsyncIterator[RemoteServiceFake]:
    """Run a service for the length of a test."""
    async with RemoteServiceFake().running() as service:
        yield service


@pytest.fixture
async def make_remote(service: RemoteServiceFake) -> AsyncIterator[MakeRemote]:
    """Give a maker of callers of the service, with the breaker's limits as its arguments."""
    async with aiohttp.ClientSession() as session:

        def make(*, threshold: int = 100, open_seconds: float = 60, address: str = "") -> RemoteService:
            return RemoteService(
                "payment",
                address or f"{service.address}/payments/",
                session=lambda: session,
                breakers=AsyncCircuitBreakerFactory(default_threshold=threshold, default_ttl=open_seconds),
                clock=FakeClock(),
                random=_Shortest(),
            )

        yield make
