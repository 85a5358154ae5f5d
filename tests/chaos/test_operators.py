"""Operators act on the orders that need it, and notice when both of them succeed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from local.platform import ANY_PORTS, Addresses
from tests.chaos.injection.lanes import FaultCounts
from tests.chaos.plan.schedule import Scenario
from tests.chaos.remotes.call_faults import CallFaults
from tests.chaos.traffic import operators
from tests.chaos.traffic.operators import Operators
from tests.local.platform.processes import PATIENCE

_SCENARIOS = {"order-1": Scenario.FIXED, "order-2": Scenario.SMOOTH}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_LOOK_EVERY", 0.01)


@pytest.mark.parametrize(("epochs", "both_won"), [([2, None], []), ([2, 2], ["order-1"]), ([2, 3], [])])
async def test_one_of_two_operators_wins(epochs: list[int | None], both_won: list[str]) -> None:
    """Both may succeed one after the other; never for the same epoch."""
    answers = iter(epochs)
    async with _api(["Processing", "Error"], answers) as addresses:
        operators_of_two = Operators([addresses], _SCENARIOS, CallFaults(_SCENARIOS, FaultCounts(), {}))
        assert operators_of_two.waiting == ["order-1"]
        async with asyncio.timeout(PATIENCE):
            await operators_of_two.act_on_all()
    assert operators_of_two.both_won == both_won
    assert next(answers, "all were requested") == "all were requested"


async def test_what_was_paid_gets_its_result_or_is_resubmitted() -> None:
    """Whichever the task in `Error` takes."""
    scenarios = {"order-1": Scenario.GARBLED}
    async with _api(["Error", "Error"], iter([None, None, 2, None])) as addresses, asyncio.timeout(PATIENCE):
        await Operators([addresses], scenarios, CallFaults(scenarios, FaultCounts(), {})).act_on_all()


async def test_order_that_ended_otherwise_gets_no_action() -> None:
    """It was not held in `Error` after all."""
    async with _api(["Processing", "Compensated"], iter(())) as addresses, asyncio.timeout(PATIENCE):
        await Operators([addresses], _SCENARIOS, CallFaults(_SCENARIOS, FaultCounts(), {})).act_on_all()


@asynccontextmanager
async def _api(states: list[str], epochs: Iterator[int | None]) -> AsyncIterator[Addresses]:
    """Serve one order, with one state for each read; another application accepts the operators' actions."""
    looks = iter(states)

    async def show(request: web.Request) -> web.Response:
        order = {"id": request.match_info["order"], "submitted_at": "2026-01-01T00:00:00Z"}
        return web.json_response(order | {"state": next(looks)})

    async def act(_request: web.Request) -> web.Response:
        epoch = next(epochs)
        return web.json_response({"epoch": epoch}, status=409 if epoch is None else 202)

    front, supervisor = web.Application(), web.Application()
    front.add_routes([web.get("/api/orders/{order}", show)])
    supervisor.add_routes([web.post("/api/ops/tasks/{task}/{action:.+}", act)])
    async with TestServer(front) as callers, TestServer(supervisor) as operators_of_it:
        yield Addresses(replace(ANY_PORTS, host=callers.port or 0, supervisor=operators_of_it.port))
