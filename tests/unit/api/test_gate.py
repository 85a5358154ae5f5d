"""While too much waits, no order is taken, whoever sends it; everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from functions.api.gate import TOO_MANY_WAIT, Gate
from functions.pattern.errors import TransientError
from functions.pattern.intake import IntakeState
from functions.web.access import Guard
from functions.web.caps import Caps
from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.fakes.clock import FakeClock
from tests.fakes.guards import KEYS
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ORDER, problem

ORDERS = "/api/orders"


class Row:
    """What a timer has measured, or not."""

    def __init__(self, clock: FakeClock, retry_after: int = 42) -> None:
        self.intake: IntakeState | None = IntakeState(
            at=clock.now(), oldest_seconds=900, messages=9, not_picked_up=0, retry_after=retry_after
        )
        self.failing = False
        self.reads = 0

    async def read(self) -> Mapping[str, Any] | None:
        """Read it."""
        self.reads += 1
        if self.failing:
            raise TransientError("no store")
        return None if self.intake is None else asdict(self.intake)


class Gated(Api):
    """The application, with a gate."""

    def __init__(self, retry_after: int = 42, *, guard: Guard | None = None) -> None:
        super().__init__(guard)
        self.clock = FakeClock()
        self.row = Row(self.clock, retry_after)
        gate = Gate(self.row.read, self.clock)
        self.client = AsgiClient(self.application_with(gate))

    async def known(self) -> Gated:
        """Let the row have been read: the first order does not wait for that."""
        assert (await self.client.get(f"{ORDERS}/none")).status == 404
        assert (await self.client.post(ORDERS, ORDER)).status == 202
        await asyncio.sleep(0)
        self.submissions.messages.clear()
        return self


def _is_refused(answer: HttpAnswer) -> bool:
    if answer.status != 429:
        return False
    document = problem(answer, 429)
    assert (document["type"], document["title"]) == (TOO_MANY_WAIT.type, TOO_MANY_WAIT.title)
    assert answer.headers["retry-after"] == "42"
    return True


async def test_orders_are_refused_until_less_waits() -> None:
    """Single ones and batches, before anything of them is read; the answer says when to come back."""
    api = await Gated().known()
    for method, path, body in [
        ("POST", ORDERS, ORDER),
        ("PUT", f"{ORDERS}/order-1", ORDER),
        ("POST", f"{ORDERS}/batch", {"orders": [ORDER]}),
        ("POST", ORDERS, b"{" * 100_000),
    ]:
        assert _is_refused(await api.client.send(method, path, body))
    assert api.submissions.messages == []
    api.row.intake = None
    await asyncio.sleep(1.01)
    assert _is_refused(await api.client.post(ORDERS, ORDER)), "what is known is a second old, and read again"
    await asyncio.sleep(0)
    assert (await api.client.post(ORDERS, ORDER)).status == 202


async def test_everything_but_new_orders_goes_on() -> None:
    """Following an order, cancelling it, telling events: that makes what waits no more."""
    api = await Gated().known()
    assert (await api.client.get(f"{ORDERS}/order-1")).status == 404
    assert (await api.client.delete(f"{ORDERS}/order-1")).status == 404
    assert (await api.client.post(f"{ORDERS}/order-1/events/approve", {})).status == 404
    assert (await api.client.get("/api/health")).status == 200


async def test_row_is_read_once_a_second_however_many_ask() -> None:
    """Each request costs nothing."""
    api = await Gated().known()
    for _ in range(20):
        await api.client.post(ORDERS, ORDER)
    assert api.row.reads == 1


@pytest.mark.parametrize("failing", [True, False])
async def test_gate_stays_open_when_nothing_is_known_or_all_is_well(*, failing: bool) -> None:
    """An outage of the store refuses nothing here: the submission itself may still succeed."""
    api = Gated(retry_after=0)
    api.row.failing = failing
    for _ in range(3):
        assert (await api.client.post(ORDERS, ORDER)).status == 202
        await asyncio.sleep(0)


async def test_old_figures_refuse_nothing() -> None:
    """Whoever measures may be gone."""
    api = await Gated().known()
    api.clock.advance(61)
    assert (await api.client.post(ORDERS, ORDER)).status == 202


async def test_own_cap_is_told_apart() -> None:
    """It has no type, and another reason: who hits it should send less, whatever others do."""
    api = Gated(retry_after=0, guard=Guard(KEYS.identify, Caps(per_minute=1, in_flight=9), FakeClock()))
    assert (await api.client.post(ORDERS, ORDER)).status == 202
    document = problem(await api.client.post(ORDERS, ORDER), 429)
    assert (document["type"], document["title"]) == ("about:blank", "Too Many Requests")
