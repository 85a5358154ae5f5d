"""A call that is not idempotent reaches its service once, whatever the service makes of it."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from functions.agents import remote as remote_service
from functions.agents.remote import RemoteService
from functions.agents.rest import RestAgent
from functions.pattern.definition import Json
from functions.pattern.errors import NotSentError, PermanentError, TransientError, UnusableAnswerError
from tests.fakes.agent_requests import agent_call
from tests.fakes.clock import FakeClock
from tests.fakes.remote_service import Answer, RemoteServiceFake
from tests.fakes.tasks import after
from tests.unit.conftest import MakeRemote

FAULTS = {
    **{f"{status}": Answer(status) for status in (408, 425, 500, 504)},
    "429 retry": Answer(429, headers={"Retry-After": "0"}),
    "503 retry": Answer(503, headers={"Retry-After": "0"}),
    "hangs up": Answer(hangs_up=True),
    "cut off": Answer(breaks_off=True),
}

each_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


async def _put(remote: RemoteService, *, within: float = 10, idempotent: bool = False) -> Json:
    async with asyncio.timeout(60):
        call = agent_call(after(within), idempotent=idempotent)
        return await RestAgent(remote).do(call)


@each_fault
async def test_service_that_does_it_and_fails_gets_one_call(
    fault: Answer, service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """The outcome is unknown, and known to be."""
    service.answers = [fault, Answer()]
    with pytest.raises(TransientError) as unknown:
        await _put(make_remote())
    assert not isinstance(unknown.value, NotSentError)
    assert len(service.received) == 1


@each_fault
async def test_idempotent_call_is_repeated_after_the_same_fault(
    fault: Answer, service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """So it is idempotence that makes the difference."""
    service.answers = [fault, Answer()]
    assert await _put(make_remote(), idempotent=True) == {"paid": True}
    assert len(service.received) == 2


async def test_undo_that_hangs_up_gets_one_call_too(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """Where its caller says that it is not idempotent."""
    service.answers = [Answer(hangs_up=True), Answer()]
    with pytest.raises(TransientError):
        await RestAgent(make_remote()).undo(agent_call(after(10), idempotent=False))
    assert [request.method for request in service.received] == ["DELETE"]


async def test_slow_service_has_until_complete_by(
    service: RemoteServiceFake, make_remote: MakeRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shorter limit ends its call, as it ends an attempt that can be repeated."""
    monkeypatch.setattr(remote_service, "_ATTEMPT_TIMEOUT", aiohttp.ClientTimeout(total=0.2))
    service.answers = [Answer(seconds=0.8)]
    assert await _put(make_remote()) == {"paid": True}
    assert len(service.received) == 1
    service.answers = [Answer(seconds=0.8), Answer()]
    assert await _put(make_remote(), idempotent=True) == {"paid": True}
    assert len(service.received) == 3


async def test_outcome_is_unknown_at_complete_by(service: RemoteServiceFake, make_remote: MakeRemote) -> None:
    """Nothing was refused."""
    service.answers = [Answer(hangs=True)]
    with pytest.raises(TransientError, match="payment did not do it by complete-by"):
        await _put(make_remote(), within=0.3)
    assert len(service.received) == 1


async def test_refusal_is_an_outcome(service: RemoteServiceFake, make_remote: MakeRemote) -> None:
    """It was not done."""
    service.answers = [Answer(422)]
    with pytest.raises(PermanentError, match="payment answered 422") as refusal:
        await _put(make_remote())
    assert not isinstance(refusal.value, UnusableAnswerError)


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"x" * 25 * 1024], ids=["no JSON", "list", "too large"])
async def test_answer_that_cannot_be_used_is_no_refusal(
    body: bytes, service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """It was done; only its result is not known."""
    service.answers = [Answer(pieces=(body,))]
    with pytest.raises(UnusableAnswerError):
        await _put(make_remote())
    assert len(service.received) == 1


async def test_each_call_has_a_connection_of_its_own(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """One that is kept may be closed by the service while the request is on its way."""
    remote = make_remote()
    for idempotent in (True, True, False, False):
        await _put(remote, idempotent=idempotent)
    kept, again, one, two = (request.port for request in service.received)
    assert kept == again
    assert len({kept, one, two}) == 3


class _MovingResolver(AbstractResolver):
    """Knows no address at first, then a port where nobody listens, then the service."""

    def __init__(self, service: RemoteServiceFake) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self._ports = [None, closed.getsockname()[1], urlsplit(service.address).port]

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the next address."""
        found = self._ports.pop(0)
        if found is None:
            raise OSError(f"{host}:{port} is unknown")
        numeric = socket.AI_NUMERICHOST
        return [
            ResolveResult(hostname=host, host="127.0.0.1", port=found, family=family, proto=0, flags=numeric)
        ]

    async def close(self) -> None:
        """Hold nothing."""


async def test_service_that_was_not_reached_is_tried_again(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """Nothing has left: neither when its name is unknown, nor when it refuses the connection."""
    connector = aiohttp.TCPConnector(force_close=True, use_dns_cache=False, resolver=_MovingResolver(service))
    async with aiohttp.ClientSession(connector=connector) as once:
        assert await _put(make_remote(address="http://pay.example.com", once=once)) == {"paid": True}
    assert len(service.received) == 1


async def test_open_circuit_is_waited_for(
    service: RemoteServiceFake, make_remote: MakeRemote, clock: FakeClock
) -> None:
    """Nothing has left; to give up would make an operator find that out."""
    service.answers = [Answer(503), Answer()]
    remote = make_remote(threshold=1, open_seconds=0.2)
    with pytest.raises(TransientError):
        await _put(remote, idempotent=True)
    waiting = asyncio.create_task(_put(remote))
    await asyncio.wait([waiting], timeout=0.1)
    assert len(service.received) == 1
    clock.advance(1)
    assert await waiting == {"paid": True}
    assert len(service.received) == 2


async def test_failing_call_counts_for_the_circuit(
    service: RemoteServiceFake, make_remote: MakeRemote
) -> None:
    """The service is as ill as after any other call."""
    service.answers = [Answer(503)]
    remote = make_remote(threshold=2)
    for _ in range(2):
        with pytest.raises(TransientError, match="payment answered 503"):
            await _put(remote)
    with pytest.raises(NotSentError, match="circuit open"):
        await _put(remote, idempotent=True)
