"""Operators look after the orders that need it, and notice when both were told that they won."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.chaos import operators
from tests.chaos.operators import Operators
from tests.chaos.payments.troubles import Troubles
from tests.chaos.plan import Fate
from tests.chaos.tally import Tally

_FATES = {"order-1": Fate.MENDED, "order-2": Fate.SMOOTH}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_LOOK_EVERY", 0.01)


@pytest.mark.parametrize(("epochs", "both_won"), [([2, None], []), ([2, 2], ["order-1"]), ([2, 3], [])])
async def test_one_of_two_operators_wins(epochs: list[int | None], both_won: list[str]) -> None:
    """Both may win one after the other; never the same epoch."""
    answers = iter(epochs)
    async with _api(["Processing", "Error"], answers) as url:
        looked_after = Operators(url, _FATES, Troubles(_FATES, Tally()))
        assert looked_after.waiting == ["order-1"]
        async with asyncio.timeout(5):
            await looked_after.look_after()
    assert looked_after.both_won == both_won
    assert next(answers, "all were asked for") == "all were asked for"


async def test_order_that_needs_nobody_any_more_is_left_alone() -> None:
    """It was not held in `Error` after all."""
    async with _api(["Processing", "Compensated"], iter(())) as url, asyncio.timeout(5):
        await Operators(url, _FATES, Troubles(_FATES, Tally())).look_after()


@asynccontextmanager
async def _api(states: list[str], epochs: Iterator[int | None]) -> AsyncIterator[str]:
    """Serve one order, which is in each state in turn, and take actions."""
    looks = iter(states)

    async def show(request: web.Request) -> web.Response:
        order = {"id": request.match_info["order"], "submitted_at": "2026-01-01T00:00:00Z"}
        return web.json_response(order | {"state": next(looks)})

    async def act(_request: web.Request) -> web.Response:
        epoch = next(epochs)
        return web.json_response({"epoch": epoch}, status=409 if epoch is None else 202)

    application = web.Application()
    application.add_routes(
        [web.get("/api/orders/{order}", show), web.post("/api/ops/tasks/{task}/resubmit", act)]
    )
    async with TestServer(application) as server:
        yield str(server.make_url("")).rstrip("/")
