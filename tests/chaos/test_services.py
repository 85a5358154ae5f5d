"""The payment service of a run has the faults that it should, and its ledger records what happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from tests.chaos.app.sending import SENT, tell_now
from tests.chaos.injection.lanes import FaultCounts
from tests.chaos.plan.faults import InjectedFault, Injection
from tests.chaos.plan.schedule import Scenario
from tests.chaos.remotes import call_faults as call_faults_module
from tests.chaos.remotes.call_faults import CallFaults
from tests.chaos.remotes.ledger import Effect, Ledger
from tests.chaos.remotes.services import FaultyServices

type _Client = TestClient[Request, Application]

_SCENARIOS = {scenario.name.lower(): scenario for scenario in Scenario}


@pytest.fixture
def ledger() -> Ledger:
    """Return an empty ledger."""
    return Ledger()


@pytest.fixture
def fault_counts() -> FaultCounts:
    """Return empty counts."""
    return FaultCounts()


@pytest.fixture
def call_faults(fault_counts: FaultCounts) -> CallFaults:
    """Return the faults for one order of each scenario, whose name is its id."""
    return CallFaults(_SCENARIOS, fault_counts, {})


@pytest.fixture
async def client(ledger: Ledger, call_faults: CallFaults) -> AsyncIterator[_Client]:
    """Serve payments, and call them."""
    application = Application()
    random = Random()  # noqa: S311 - not for security
    application.add_routes(FaultyServices(ledger, call_faults, random).routes())
    async with TestClient(TestServer(application)) as client:
        yield client


async def test_payment_is_made_once_for_each_key(client: _Client, ledger: Ledger) -> None:
    """The same key again is the same effect; another key would be another payment."""
    assert [await _pay(client, "smooth"), await _pay(client, "smooth")] == [201, 204]
    assert await _pay(client, "smooth", key="smooth/payment/do.2") == 201
    assert _effects(ledger) == [Effect.PERFORMED, Effect.REPEATED, Effect.PERFORMED]


async def test_call_without_a_key_stands_in_the_ledger(client: _Client, ledger: Ledger) -> None:
    """It tells nothing of its sending, either; whoever judges it finds that it has no key."""
    async with client.put("/payments/smooth.0a1b2c3d") as answer:
        assert answer.status == 201
    assert [(each.order, each.key) for each in ledger.calls] == [("smooth", "")]


async def test_undone_payment_is_never_made(client: _Client, ledger: Ledger) -> None:
    """The undo leaves a tombstone, also when it comes first."""
    assert [await _undo(client, "smooth"), await _undo(client, "smooth")] == [201, 204]
    assert await _pay(client, "smooth") == 410
    assert _effects(ledger) == [Effect.PERFORMED, Effect.REPEATED, Effect.TOMBSTONED]


async def test_refused_order_is_paid_when_its_cause_is_fixed(
    client: _Client, call_faults: CallFaults
) -> None:
    """An operator can fix it."""
    assert await _pay(client, "fixed") == 400
    call_faults.fix("fixed")
    assert await _pay(client, "fixed") == 201


async def test_payment_with_a_garbled_answer_is_made(client: _Client, ledger: Ledger) -> None:
    """The first answer is not JSON, the second says that it was made."""
    async with client.put("/payments/garbled", headers=_headers("garbled/payment/do")) as answer:
        assert await answer.text() == "<html>"
    assert await _pay(client, "garbled") == 204
    assert _effects(ledger) == [Effect.PERFORMED, Effect.REPEATED]


async def test_overtaken_payment_is_carried_out_after_the_undo(client: _Client, ledger: Ledger) -> None:
    """It is in flight during the undo, and then refused."""
    paying = asyncio.create_task(_pay(client, "overtaken"))
    while not ledger.calls:
        await asyncio.sleep(0.01)
    assert await _undo(client, "overtaken") == 201
    assert await paying == 410
    assert _effects(ledger) == [Effect.TOMBSTONED, Effect.PERFORMED]


async def test_undo_fails_twice_then_works(client: _Client, fault_counts: FaultCounts) -> None:
    """For an unreachable order; a stuck one is never undone."""
    assert [await _undo(client, "unreachable") for _ in range(3)] == [503, 503, 201]
    assert [await _undo(client, "stuck") for _ in range(3)] == [400, 400, 400]
    assert fault_counts.by_fault[InjectedFault.UNDO_FAILING] == 2
    assert fault_counts.by_fault[InjectedFault.UNDO_REFUSED] == 3


@pytest.mark.parametrize(
    ("fault", "status"), [(InjectedFault.PAYMENT_FAILING, 503), (InjectedFault.PAYMENT_THROTTLED, 429)]
)
async def test_injected_fault_affects_every_call(
    client: _Client,
    call_faults: CallFaults,
    ledger: Ledger,
    fault: InjectedFault,
    status: int,
) -> None:
    """As long as it lasts; the injection returns the number of calls."""
    async with _injected(fault, call_faults) as injecting:
        assert await _pay(client, "smooth") == status
    assert await injecting == 1
    assert await _pay(client, "smooth") == 201
    assert _effects(ledger) == [Effect.NONE, Effect.PERFORMED]


async def test_payment_whose_answer_is_lost_is_made(
    client: _Client, call_faults: CallFaults, ledger: Ledger
) -> None:
    """The caller cannot know; the ledger does."""
    async with _injected(InjectedFault.PAYMENT_ANSWER_LOST, call_faults):
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await _pay(client, "smooth")
    assert _effects(ledger) == [Effect.PERFORMED]


async def test_fault_lasts_until_it_has_affected_a_call(client: _Client, call_faults: CallFaults) -> None:
    """Its own time was over before the first one came."""
    injecting = asyncio.create_task(call_faults.inject(Injection(InjectedFault.PAYMENT_FAILING, 0, 0)))
    await asyncio.sleep(0.05)
    assert not injecting.done()
    assert await _pay(client, "smooth") == 503
    assert await injecting == 1


@asynccontextmanager
async def _injected(fault: InjectedFault, call_faults: CallFaults) -> AsyncIterator[asyncio.Task[int]]:
    """Inject a fault until the block ends, and yield the injection."""
    ended = asyncio.Event()

    async def until_ended(_seconds: float) -> None:
        await ended.wait()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_faults_module, "_last", until_ended)
        injecting = asyncio.create_task(call_faults.inject(Injection(fault, before=0, lasts=1)))
        await asyncio.sleep(0)
        yield injecting
    ended.set()
    await injecting


async def _pay(client: _Client, order: str, *, key: str | None = None) -> int:
    headers = _headers(key or f"{order}/payment/do")
    async with client.put(f"/payments/{order}", headers=headers) as answer:
        return answer.status


async def _undo(client: _Client, order: str) -> int:
    headers = _headers(f"{order}/payment/undo")
    async with client.delete(f"/payments/{order}", headers=headers) as answer:
        return answer.status


def _headers(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key, SENT: tell_now(time.monotonic() + 1, datetime.now(UTC))}


def _effects(ledger: Ledger) -> list[Effect]:
    return [call.effect for call in ledger.calls]
