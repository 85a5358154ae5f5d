"""A delivery is undone after a refusal and after a cancel."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.deliveries import BOOKED_ONCE, UNDONE, asking, booked, submit
from tests.e2e.recovery.bench import Bench, ends
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def test_undo_goes_in_reverse(bench: Bench) -> None:
    """The delivery is refused although it was scheduled: delivery, drone and package are undone."""
    bench.remote.script("blunder/delivery/do", Behaviour.BLUNDERS)
    await submit(bench, "blunder")
    task = await bench.until_state("blunder", "Compensated")
    assert (ends(task), task["reason"]) == (["refused"], "delivery: delivery answered 422")
    assert bench.remote.effects("blunder")[2:] == [
        "drone/do",
        "delivery/do",
        "delivery/undo",
        "drone/undo",
        "package/undo",
    ]


async def test_processed_delivery_is_cancelled_and_every_effect_undone(bench: Bench) -> None:
    """Its output is shown as long as it counts; a repeated cancel changes nothing."""
    await submit(bench, "changed-my-mind")
    await bench.until_state("changed-my-mind", "Processed")
    output = (await _read(bench, "changed-my-mind"))["output"]
    assert output == {"tracking_number": "T-7", "expected_at": "2026-11-21T13:00:00Z"}
    assert [await _cancel(bench, "changed-my-mind") for _ in range(2)] == [202, 202]
    task = await bench.until_state("changed-my-mind", "Compensated")
    assert ends(task) == ["cancelled"]
    assert sorted(bench.remote.effects("changed-my-mind")[:4]) == BOOKED_ONCE
    assert _undone(bench, "changed-my-mind") == [f"{step}/undo" for step in UNDONE]
    assert booked(bench.remote, "changed-my-mind") == {"transport"}  # a quote: nothing is bound by it
    assert (await _read(bench, "changed-my-mind"))["output"] is None
    assert await _cancel(bench, "changed-my-mind") == 202


async def test_delivery_under_way_is_cancelled_with_its_running_steps(bench: Bench) -> None:
    """The outcome of the drone's call does not count any more: it is undone as an unknown outcome is."""
    drone = asking("on-its-way", "drone")
    bench.remote.script(drone, Behaviour.WAITS)
    await submit(bench, "on-its-way")
    await bench.until_called(drone)
    assert await _cancel(bench, "on-its-way") == 202
    task = await bench.until_state("on-its-way", "Compensated")
    bench.remote.release(drone, 0)
    assert ends(task) == ["cancelled"]
    assert _undone(bench, "on-its-way") == ["drone/undo", "package/undo"]


async def _cancel(bench: Bench, task: str) -> int:
    async with bench.session.delete(f"/api/deliveries/{task}") as answer:
        return answer.status


async def _read(bench: Bench, task: str) -> dict[str, Any]:
    async with bench.session.get(f"/api/deliveries/{task}") as answer:
        shown: dict[str, Any] = await answer.json()
        return shown


def _undone(bench: Bench, task: str) -> list[str]:
    return [effect for effect in bench.remote.effects(task) if effect.endswith("/undo")]
