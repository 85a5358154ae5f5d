"""Health is told from a memory that is a second old at most, and nobody's flood uses up its allowance."""

from __future__ import annotations

import asyncio

import pytest

from functions.api import gate
from functions.api.gate import StoreHealth
from functions.pattern.errors import TransientError
from functions.web.access import Guard
from functions.web.caps import Caps
from tests.fakes.clock import FakeClock
from tests.fakes.guards import one_caller
from tests.unit.api.conftest import Api


class Store:
    """A store that answers when the test lets it, and counts who asks."""

    def __init__(self) -> None:
        self.asked = 0
        self.fault: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def check(self) -> None:
        """Answer, or fail as the test says."""
        self.asked += 1
        await self.answers.wait()
        if self.fault is not None:
            raise self.fault


async def test_all_who_ask_meanwhile_share_one_look() -> None:
    """Also when one of them does not wait for it."""
    store = Store()
    store.answers.clear()
    asked = StoreHealth(store.check)
    waiting = [asyncio.create_task(asked.check()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    store.answers.set()
    await asyncio.gather(*waiting[1:])
    assert store.asked == 1


@pytest.mark.parametrize("fault", [None, TransientError("Table Storage: ServiceRequestError")])
async def test_what_was_found_is_remembered_for_a_second(
    fault: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault as well as none; after that, it is looked again."""
    store = Store()
    store.fault = fault
    asked = StoreHealth(store.check)
    outcomes = [(await asyncio.gather(asked.check(), return_exceptions=True))[0] for _ in range(3)]
    assert [str(each) for each in outcomes] == [str(fault)] * 3
    assert (store.asked, gate._REMEMBERED) == (1, 1.0)
    monkeypatch.setattr(gate, "_REMEMBERED", 0)
    again = StoreHealth(store.check)
    for _ in range(3):
        await asyncio.gather(again.check(), return_exceptions=True)
    assert store.asked == 4


async def test_health_and_callers_use_up_nothing_of_each_other() -> None:
    """Whatever a caller's key is called."""
    api = Api(Guard(one_caller("anybody"), Caps(per_minute=2, in_flight=9), FakeClock()))
    for path, status in [("/api/orders/a", 404), ("/api/health", 200)]:
        answers = [await api.client.get(path) for _ in range(3)]
        assert [each.status for each in answers] == [status, status, 429]
