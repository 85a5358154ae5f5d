"""What one caller may ask of an instance: refusals say when to come again, and others notice nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from functions.settings import Settings
from functions.web.access import Guard
from functions.web.callers import Caller, signed_in
from functions.web.caps import Allowance, CallerCaps, Caps, RunningTime
from functions.web.problems import ProblemError
from tests.fakes.asgi import AsgiClient
from tests.fakes.clock import FakeClock
from tests.fakes.guards import ANNA, BERT, one_caller, submitter
from tests.unit.api.conftest import Api
from tests.unit.api.samples import ORDER, problem

ORDERS = "/api/orders"
BATCH = "/api/orders/batch"


class Capped:
    """The callers' application with narrow caps, and a clock to be moved."""

    def __init__(self, *, per_minute: int = 1_000, in_flight: int = 100) -> None:
        self.clock = FakeClock()
        self.api = Api(Guard(signed_in, Caps(per_minute=per_minute, in_flight=in_flight), self.clock))
        self.anna = AsgiClient(self.api.application, submitter(ANNA))
        self.bert = AsgiClient(self.api.application, submitter(BERT))


class Counted:
    """The caps before requests that last until they all `end`, and then fail."""

    def __init__(self, caps: Caps) -> None:
        self.clock = FakeClock()
        self.end = asyncio.Event()
        self.caps = CallerCaps(caps, self.clock)

    async def ask(self, name: str) -> None:
        """Send a request. Raises what it ends with."""
        with self.caps.admitted(Caller(name, frozenset())):
            await self.end.wait()
            raise ConnectionError


async def test_a_minutes_requests_may_come_at_once() -> None:
    """The next is 429, and is not even read."""
    capped = Capped(per_minute=3)
    for _ in range(3):
        assert (await capped.anna.post(ORDERS, ORDER)).status == 202
    answer = await capped.anna.post(ORDERS, b"{")
    problem(answer, 429)
    assert answer.headers["retry-after"] == "20"


async def test_whoever_waits_as_told_is_taken_again() -> None:
    """And not a moment earlier."""
    capped = Capped(per_minute=1)
    await capped.anna.post(ORDERS, ORDER)
    seconds = int((await capped.anna.post(ORDERS, ORDER)).headers["retry-after"])
    capped.clock.advance(seconds - 0.1)
    problem(await capped.anna.post(ORDERS, ORDER), 429)
    capped.clock.advance(0.1)
    assert (await capped.anna.post(ORDERS, ORDER)).status == 202


async def test_each_caller_has_its_own() -> None:
    """What one asks costs another nothing."""
    capped = Capped(per_minute=1)
    for client in (capped.anna, capped.bert):
        assert (await client.post(ORDERS, ORDER)).status == 202
        problem(await client.post(ORDERS, ORDER), 429)


async def test_a_batch_costs_as_much_as_its_orders() -> None:
    """It is taken whole, however large; what follows waits until it is paid for."""
    capped = Capped(per_minute=60)
    assert (await capped.anna.post(BATCH, {"orders": [ORDER] * 90})).status == 200
    answer = await capped.anna.post(ORDERS, ORDER)
    problem(answer, 429)
    assert answer.headers["retry-after"] == "31"


async def test_requests_at_a_time_are_counted() -> None:
    """One that has ended makes room for the next, also one that failed."""
    counted = Counted(Caps(per_minute=1_000, in_flight=1))
    first = asyncio.create_task(counted.ask("anna"))
    await asyncio.sleep(0)
    with pytest.raises(ProblemError) as refusal:
        await counted.ask("anna")
    assert (refusal.value.status, refusal.value.headers) == (429, {"Retry-After": "1"})
    counted.end.set()
    for asking in (first, counted.ask("anna")):
        with pytest.raises(ConnectionError):
            await asking


def test_allowances_fill_up_to_a_minutes_worth() -> None:
    """However long nobody asks, and whatever happens to the clock."""
    clock = FakeClock()
    allowance = Allowance(60, RunningTime(clock))
    allowance.spend(60)
    assert allowance.wait() == 1
    clock.advance(-3_600)
    assert allowance.wait() == 1
    clock.advance(0.5)
    assert allowance.wait() == 0.5
    clock.advance(7_200)
    assert allowance.wait() == 0
    allowance.spend(60)
    assert allowance.wait() == 1


async def test_callers_who_ask_for_nothing_are_forgotten() -> None:
    """Memory is bounded; who has still to wait is remembered."""
    counted = Counted(Caps(per_minute=60, in_flight=1))
    counted.end.set()
    for number in range(1_000):
        await _failing(counted.ask(f"caller-{number}"))
    counted.clock.advance(0.5)
    await _failing(counted.ask("late"))
    assert len(counted.caps._allowances) == 1_001
    counted.clock.advance(0.5)
    await _failing(counted.ask("later"))
    assert counted.caps._allowances.keys() == {"late", "later"}


async def _failing(asking: Awaitable[None]) -> None:
    with pytest.raises(ConnectionError):
        await asking


async def test_the_defaults_are_generous() -> None:
    """A thousand orders, a hundred at a time, and a few full batches in the same minute are no news."""
    settings = Settings.model_fields
    caps = Caps(
        per_minute=settings["rate_per_minute"].default, in_flight=settings["requests_in_flight"].default
    )
    assert caps.in_flight >= 100
    client = AsgiClient(Api(Guard(one_caller("all"), caps, FakeClock())).application)
    for _ in range(4):
        assert (await client.post(BATCH, {"orders": [ORDER] * 500})).status == 200
    answers = [(await client.get("/api/orders/a")).status for _ in range(1_000)]
    assert set(answers) == {404}
