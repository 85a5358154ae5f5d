"""The payment service of a chaos run does what it is told, and its ledger what really happened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, Request

from tests.chaos.faults import Fault, FaultKind
from tests.chaos.payments.ledger import Direction, Effect, Ledger
from tests.chaos.payments.service import PaymentService
from tests.chaos.payments.troubles import Troubles
from tests.chaos.plan import Fate
from tests.chaos.tally import Tally

type _Client = TestClient[Request, Application]

_FATES = {fate.name.lower(): fate for fate in Fate}


@pytest.fixture
def ledger() -> Ledger:
    """Give an empty ledger."""
    return Ledger()


@pytest.fixture
def tally() -> Tally:
    """Give an empty tally."""
    return Tally()


@pytest.fixture
def troubles(tally: Tally) -> Troubles:
    """Give troubles for one order of each fate, which is its id."""
    return Troubles(_FATES, tally)


@pytest.fixture
async def client(ledger: Ledger, troubles: Troubles) -> AsyncIterator[_Client]:
    """Serve payments, and call them."""
    application = Application()
    chance = Random()  # noqa: S311 - chance, no secret
    application.add_routes(PaymentService(ledger, troubles, chance).routes())
    async with TestClient(TestServer(application)) as client:
        yield client


async def test_payment_is_made_once_for_each_key(client: _Client, ledger: Ledger) -> None:
    """The same key again is the same effect; another key would be another payment."""
    assert [await _pay(client, "smooth"), await _pay(client, "smooth")] == [201, 204]
    assert await _pay(client, "smooth", key="smooth/payment/do.2") == 201
    assert _effects(ledger) == [Effect.PERFORMED, Effect.REPEATED, Effect.PERFORMED]


async def test_undone_payment_is_never_made(client: _Client, ledger: Ledger) -> None:
    """The undo leaves a tombstone, also when it comes first."""
    assert [await _undo(client, "smooth"), await _undo(client, "smooth")] == [201, 204]
    assert await _pay(client, "smooth") == 410
    assert _effects(ledger) == [Effect.PERFORMED, Effect.REPEATED, Effect.TOMBSTONED]


async def test_refused_order_is_paid_when_it_is_mended(client: _Client, troubles: Troubles) -> None:
    """An operator can do something about it."""
    assert await _pay(client, "mended") == 400
    troubles.mend("mended")
    assert await _pay(client, "mended") == 201


async def test_misheard_payment_is_made_all_the_same(client: _Client, ledger: Ledger) -> None:
    """The first answer is no JSON, the second says that it was done."""
    async with client.put("/payments/misheard", headers=_key("misheard", "do")) as answer:
        assert await answer.text() == "<html>"
    assert await _pay(client, "misheard") == 204
    assert _effects(ledger) == [Effect.PERFORMED, Effect.REPEATED]


async def test_belated_payment_comes_after_the_undo(client: _Client, ledger: Ledger) -> None:
    """It is under way while the undo is carried out, and is then refused."""
    paying = asyncio.create_task(_pay(client, "belated"))
    while not ledger.calls:
        await asyncio.sleep(0.01)
    assert await _undo(client, "belated") == 201
    assert await paying == 410
    assert _effects(ledger) == [Effect.TOMBSTONED, Effect.PERFORMED]


async def test_undo_fails_twice_then_works(client: _Client, tally: Tally) -> None:
    """That is what befalls an unreachable order; a stuck one is never undone."""
    assert [await _undo(client, "unreachable") for _ in range(3)] == [503, 503, 201]
    assert [await _undo(client, "stuck") for _ in range(3)] == [400, 400, 400]
    assert tally.counts[FaultKind.UNDO_FAILING] == 2
    assert tally.counts[FaultKind.UNDO_REFUSED] == 3


@pytest.mark.parametrize(
    ("kind", "status"), [(FaultKind.PAYMENT_FAILING, 503), (FaultKind.PAYMENT_THROTTLED, 429)]
)
async def test_present_fault_befalls_everybody(
    client: _Client, troubles: Troubles, ledger: Ledger, kind: FaultKind, status: int
) -> None:
    """While it lasts, and no longer; it is counted by those whom it met."""
    happening = asyncio.create_task(troubles.happen(Fault(kind, 0, 0.3)))
    await asyncio.sleep(0)
    assert await _pay(client, "smooth") == status
    assert await happening == 1
    assert await _pay(client, "smooth") == 201
    assert _effects(ledger) == [Effect.NONE, Effect.PERFORMED]


async def test_forgetful_service_pays_and_hangs_up(
    client: _Client, troubles: Troubles, ledger: Ledger
) -> None:
    """The caller can't know; the ledger does."""
    happening = asyncio.create_task(troubles.happen(Fault(FaultKind.PAYMENT_FORGETFUL, 0, 0.3)))
    await asyncio.sleep(0)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await _pay(client, "smooth")
    await happening
    assert _effects(ledger) == [Effect.PERFORMED]


async def _pay(client: _Client, order: str, *, key: str | None = None) -> int:
    headers = _key(order, Direction.DO) if key is None else {"Idempotency-Key": key}
    async with client.put(f"/payments/{order}", headers=headers) as answer:
        return answer.status


async def _undo(client: _Client, order: str) -> int:
    async with client.delete(f"/payments/{order}", headers=_key(order, Direction.UNDO)) as answer:
        return answer.status


def _key(order: str, direction: str) -> dict[str, str]:
    return {"Idempotency-Key": f"{order}/payment/{direction}"}


def _effects(ledger: Ledger) -> list[Effect]:
    return [call.effect for call in ledger.calls]
