"""Random histories hold what is promised; `one_life` says what is checked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from functions.agents import sent_once
from functions.messages import patience
from functions.pattern.definition import Workflow
from functions.pattern.states import Remedy, Way
from tests.fakes.workflows import step, workflow
from tests.unit.adversary.simulation import one_life


def _flow(seed: int) -> Workflow:
    return workflow(
        step("open", undo=True),
        step(
            "pay", "open", undo=bool(seed % 5), idempotent=False, complete_within=20,
            via=Way.QUEUE if seed % 2 else Way.ACTIVITY,
        ),
        step("left", "open", undo=True),
        step("fee", "open", idempotent=False, undo=True, complete_within=14),
        step("close", "pay", "left", "fee", undo=True),
        name="shop",
        resource="shops",
        remedy=Remedy.COMPENSATE if seed % 3 else Remedy.HOLD,
        cancel_within=50,
    )


@pytest.mark.parametrize("how", [{}, {"kills": False}, {"skew": 30}], ids=str)
async def test_random_histories(how: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every fourth, one process lacks the version."""
    monkeypatch.setattr(patience, "_FIRST_WAIT", 0.0005)
    monkeypatch.setattr(patience, "_LONGEST_WAIT", 0.001)
    monkeypatch.setattr(sent_once, "_PATIENCE", 0.05)
    for seed in range(12):
        flow = _flow(seed)
        others = (replace(flow, version=2),) if seed % 4 == 0 else ()
        _, found = await one_life(seed, flow, others, **how)
        assert not found, f"seed {seed}"
