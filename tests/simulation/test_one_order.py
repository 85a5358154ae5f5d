"""One order on simulated services: the application as it is carries it out."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from functions.pattern.occurrences import TaskCounter
from functions.workflows.registry import load_registrations
from tests.simulation.hosts.host import Host
from tests.simulation.remotes.ledger import CallEffect
from tests.simulation.run.drawn_run import simulate
from tests.simulation.run.platform import Platform
from tests.simulation.world.world import CalmFates

ORDER = {
    "customer": "C-1",
    "currency": "EUR",
    "items": [{"sku": "TEA", "quantity": 2, "unit_price": "4.90"}],
    "reply_to": "notices-demo",
}


async def _one_order(platform: Platform) -> dict[str, Any]:
    host = platform.start_host("a", load_registrations())
    status, _ = await platform.http(host, "PUT", "/api/orders/o-1", ORDER)
    assert status == 202
    async with asyncio.timeout(60):
        return await _ended(platform, host)


async def _ended(platform: Platform, host: Host) -> dict[str, Any]:
    while True:
        await asyncio.sleep(1)
        _, shown = await platform.http(host, "GET", "/api/orders/o-1")
        if shown["finished_at"] is not None:
            return {
                "shown": shown,
                "calls": platform.services.ledger.calls,
                "notices": platform.namespace.queues["notices-demo"].messages,
            }


async def _last_hour(platform: Platform) -> list[dict[str, Any]]:
    await _one_order(platform)
    await asyncio.sleep(90)
    _, shown = await platform.http(platform.start_host("b", load_registrations()), "GET", "/api/ops/overview")
    minutes: list[dict[str, Any]] = shown["last_hour"]
    return minutes


def _run(seed: int) -> tuple[dict[str, Any], str]:
    ended, world = simulate(seed, CalmFates(Random(seed)), _one_order, {})
    assert world.loop.unhandled == []
    return ended, world.timeline.digest


def test_order_is_processed() -> None:
    """It is paid once, and its caller is told twice."""
    ended, _ = _run(1)
    assert ended["shown"]["state"] == "Processed"
    assert ended["shown"]["answer"] == {"paid": "9.80", "currency": "EUR"}
    assert [call.effect for call in ended["calls"]] == [CallEffect.PERFORMED]
    assert [each.subject for each in ended["notices"]] == ["received", "completed"]


def test_order_is_counted_when_its_minute_is_over() -> None:
    """Any instance shows the counts of all: the order was accepted once, and processed once."""
    minutes, _ = simulate(1, CalmFates(Random(1)), _last_hour, {})
    sums = {name: sum(each[name] for each in minutes) for name in TaskCounter}
    assert sums == {"accepted": 1, "processed": 1, "compensated": 0, "error": 0, "recovered": 0}


def test_seed_repeats_its_run_exactly() -> None:
    """Every request of every host comes at the same moment again, and another seed's do not."""
    assert _run(2)[1] == _run(2)[1] != _run(3)[1]
