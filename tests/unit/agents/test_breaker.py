"""The circuit of a service that fails too often opens for a while."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from datetime import timedelta

import pytest

from functions.agents import shared_record
from functions.agents.breaker import CircuitOpenError
from functions.agents.remote import RemoteService
from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.shared_rows import Swap
from tests.fakes.agent_requests import agent_call
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.remote_service import Answer
from tests.fakes.tasks import after
from tests.unit.conftest import Service

#: Seconds that the call of a probe may take.
_PROBE_SECONDS = 1.5


async def _put(remote: RemoteService, clock: FakeClock, *, within: float = 60) -> None:
    async with asyncio.timeout(60):
        await remote.put("task-1", {}, agent_call(clock.now() + timedelta(seconds=within)))


async def _fails_fast(remote: RemoteService, clock: FakeClock) -> None:
    with pytest.raises(CircuitOpenError, match=r"^payment: circuit open until "):
        await _put(remote, clock)


async def test_failing_service_fails_fast(service: Service, clock: FakeClock) -> None:
    """After the threshold no call reaches it, neither of this task nor of another, and none waits."""
    service.answers = [Answer(503)]
    remote = service.caller(threshold=2)
    await _fails_fast(remote, clock)
    for _ in range(3):
        await _fails_fast(remote, clock)
    assert len(service.received) == 2


async def test_hanging_service_counts_as_failing(service: Service, clock: FakeClock) -> None:
    """Each call that complete-by ends is a failure."""
    service.answers = [Answer(hangs=True)]
    remote = service.caller(threshold=2)
    for _ in range(2):
        with pytest.raises(TransientError, match="payment did not do it by complete-by"):
            await _put(remote, clock, within=0.1)
    await _fails_fast(remote, clock)
    assert len(service.received) == 2


async def test_what_is_too_late_to_be_called_is_not_held_against_the_service(
    service: Service, clock: FakeClock
) -> None:
    """It had no part in it."""
    remote = service.caller(threshold=2)
    await _put(remote, clock)
    for _ in range(3):
        with pytest.raises(TransientError, match="payment did not do it by complete-by"):
            await remote.put("task-1", {}, agent_call(after(0)))
    await _put(remote, clock)
    assert len(service.received) == 2


@pytest.mark.parametrize("idempotent", [True, False])
async def test_call_that_is_cut_off_because_it_began_late_is_no_failure(
    service: Service, clock: FakeClock, *, idempotent: bool
) -> None:
    """The service had a moment of the time that a step gives it; one that had it all, and hangs, fails."""
    service.answers = [Answer(hangs=True)]
    remote = service.caller(threshold=2)
    for complete_within in (60, 60, 60, 0.1, 0.1):
        call = agent_call(
            clock.now() + timedelta(seconds=0.1), idempotent=idempotent, complete_within=complete_within
        )
        with pytest.raises(TransientError, match="payment did not do it by complete-by"):
            await remote.put("task-1", {}, call)
    await _fails_fast(remote, clock)
    assert len(service.received) == 5


async def test_read_that_began_late_is_no_failure_either(service: Service, clock: FakeClock) -> None:
    """An Agent that reads says how long its step may take."""
    service.answers = [Answer(hangs=True)]
    remote = service.caller(threshold=1)
    soon = clock.now() + timedelta(seconds=0.1)
    for seconds in (60, 0.1):
        with pytest.raises(TransientError, match="payment did not do it by complete-by"):
            await remote.get("task-1", soon, seconds)
    await _fails_fast(remote, clock)


async def test_fault_of_a_call_that_began_late_counts(service: Service, clock: FakeClock) -> None:
    """An answer was there."""
    service.answers = [Answer(503)]
    remote = service.caller(threshold=1)
    call = agent_call(clock.now() + timedelta(seconds=1), complete_within=60)
    with pytest.raises(TransientError):
        await remote.put("task-1", {}, call)
    await _fails_fast(remote, clock)


class _SilentAfterTheAnswer(MemoryBreakerRows):
    """Rows that can't be told that the service is back, until its call is over."""

    async def swap(self, record: BreakerRecord, version: str | None) -> Swap:
        """Take longer than the call may."""
        if record.state is BreakerState.CLOSED:
            await asyncio.sleep(_PROBE_SECONDS)
        return await super().swap(record, version)


@pytest.mark.parametrize("status", [200, 422])
async def test_answer_to_a_probe_is_not_lost_while_its_row_is_written(
    status: int,
    service: Service,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It came in time: the outcome of what must not be repeated is known."""
    monkeypatch.setattr(shared_record, "_STORE_SECONDS", 60)
    remote = service.caller(threshold=1, rows=_SilentAfterTheAnswer())
    service.answers = [Answer(503), Answer(status)]
    await _fails_fast(remote, clock)
    clock.advance(60)
    call = agent_call(clock.now() + timedelta(seconds=_PROBE_SECONDS), idempotent=False)
    with nullcontext() if status == 200 else pytest.raises(PermanentError, match="422"):
        assert await remote.put("task-1", {}, call) == {"paid": True}
