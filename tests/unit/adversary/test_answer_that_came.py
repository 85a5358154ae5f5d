"""A service's answer that came in time is not thrown away for the sake of a circuit breaker's row."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import aiohttp
import pytest

from functions.agents.breaker import Breaker, CircuitOpenError
from functions.agents.remote import RemoteService
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.errors import NotSentError, PermanentError, TransientError
from functions.pattern.shared_rows import Swap
from functions.pattern.breaker import BreakerRecord
from tests.fakes.agent_requests import agent_call
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.chance import Least
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.remote_service import Answer, RemoteServiceFake


class SlowOnSuccess(MemoryBreakerRows):
    """The store becomes silent at the moment at which the service has answered."""

    slow = False

    async def swap(self, record: BreakerRecord, version: str | None) -> Swap:
        """Hang from the second write on: the one that closes the circuit."""
        if self.slow and record.state == "closed":
            await asyncio.Event().wait()
        return await super().swap(record, version)


@pytest.mark.parametrize("answer", [Answer(200), Answer(422)], ids=["done", "refused"])
async def test_known_outcome_of_a_probe_is_kept(answer: Answer, service: RemoteServiceFake, clock: FakeClock) -> None:
    """Issue 1: its known outcome is never discarded."""
    rows = SlowOnSuccess()
    ports = fake_ports(clock=clock, breakers=rows)
    policy = BreakerPolicy(failures=1, open_for=timedelta(seconds=10))
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        remote = RemoteService(
            "payment", f"{service.address}/payments/", ports,
            session=lambda: session, once_session=lambda: session,
            breaker=Breaker("payment", ports, policy), random=Least(),
        )
        service.answers = [Answer(503), answer]
        with pytest.raises((CircuitOpenError, TransientError)):
            await remote.put("task-1", {}, agent_call(clock.now() + timedelta(seconds=5)))
        clock.advance(11)
        rows.slow = True
        try:
            await remote.put(
                "task-1", {}, agent_call(clock.now() + timedelta(seconds=0.6), idempotent=False)
            )
        except PermanentError:
            assert answer.status == 422
        except NotSentError:
            raise
        except TransientError as unknown:
            pytest.fail(f"the service had answered {answer.status}, and the outcome is unknown: {unknown}")
    assert len(service.received) == 2
