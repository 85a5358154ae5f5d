"""A service that fails too often is left alone for a while."""

from __future__ import annotations

import asyncio

import pytest

from functions.agents.remote import RemoteService
from functions.pattern.errors import PermanentError, TransientError
from functions.pattern.identity import EffectKey
from tests.fakes.remote_service import Answer, RemoteServiceFake
from tests.fakes.tasks import after
from tests.unit.agents.conftest import MakeRemote


async def _fails(remote: RemoteService, *, within: float) -> None:
    with pytest.raises(TransientError):
        await remote.put("task-1", {}, EffectKey("key"), after(within))


async def test_failing_service_is_left_alone(service: RemoteServiceFake, make_remote: MakeRemote) -> None:
    """After the threshold no call reaches it, neither of this task nor of another."""
    service.answers = [Answer(503)]
    remote = make_remote(threshold=2)
    await _fails(remote, within=0.4)
    await _fails(remote, within=0.1)
    assert len(service.received) == 2


async def test_hanging_service_counts_as_failing(service: RemoteServiceFake, make_remote: MakeRemote) -> None:
    """Each call that complete-by ends is a failure."""
    service.answers = [Answer(hangs=True)]
    remote = make_remote(threshold=2)
    for _ in range(4):
        await _fails(remote, within=0.1)
    assert len(service.received) == 2


async def test_service_is_tried_again_when_its_time_is_over(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """One call that succeeds closes the breaker, within the same complete-by."""
    service.answers = [Answer(503), Answer(503), Answer(200), Answer(503), Answer(200)]
    remote = make_remote(threshold=2, open_seconds=0.2)
    async with asyncio.timeout(5):
        await remote.put("task-1", {}, EffectKey("key"), after(5))
        await remote.put("task-2", {}, EffectKey("key"), after(5))
    assert len(service.received) == 5


async def test_half_open_breaker_closes_at_the_first_failure(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """The trial call fails: the service is left alone again."""
    service.answers = [Answer(503)]
    remote = make_remote(threshold=3, open_seconds=0.3)
    await _fails(remote, within=0.5)
    assert len(service.received) == 3
    await _fails(remote, within=0.2)
    assert len(service.received) == 4


async def test_refusals_do_not_open_the_breaker(service: RemoteServiceFake, make_remote: MakeRemote) -> None:
    """A service that refuses an order is well."""
    service.answers = [Answer(400)]
    remote = make_remote(threshold=2)
    for _ in range(4):
        with pytest.raises(PermanentError):
            await remote.put("task-1", {}, EffectKey("key"), after(1))
    assert len(service.received) == 4
