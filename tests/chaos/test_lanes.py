"""A lane's faults happen one after the other, each kind at least once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.chaos import lanes
from tests.chaos.faults import LANES, Fault, FaultKind, Lane
from tests.chaos.lanes import run_lane
from tests.chaos.plan import make_plan
from tests.chaos.tally import Tally


@pytest.fixture(autouse=True)
def _no_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let faults follow each other at once."""

    async def at_once(_seconds: float) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(lanes, "_quiet", at_once)


async def test_fault_that_met_nobody_is_tried_again() -> None:
    """The time is over, but a kind has not happened yet: only that is tried on."""
    tried: Counter[FaultKind] = Counter()
    tally = Tally()

    async def happen(fault: Fault) -> int:
        tried[fault.kind] += 1
        is_shy = fault.kind is FaultKind.SERVER_BUSY
        return int(not is_shy or tried[fault.kind] == 3)

    await run_lane(make_plan(1, 10, 0.0), Lane.BROKER, happen, tally)
    assert all(map(tally.has, LANES[Lane.BROKER]))
    assert tried[FaultKind.SERVER_BUSY] == 3
    assert all(tried[kind] == 1 for kind in LANES[Lane.BROKER] if kind is not FaultKind.SERVER_BUSY)


async def test_fault_that_never_meets_anybody_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run goes on without it, and is then told to be vacuous."""
    monkeypatch.setattr(lanes, "GRACE", 0.05)
    tally = Tally()

    async def nothing(_fault: Fault) -> int:
        return 0

    await run_lane(make_plan(1, 10, 0.0), Lane.PAYMENTS, nothing, tally)
    assert set(tally.counts.values()) == {0}
