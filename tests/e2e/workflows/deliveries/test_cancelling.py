"""A delivery is answered, and cancelled over HTTP: every effect is undone, whenever the cancel comes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.recovery.bench import Bench, events
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.workflows.deliveries.bench import submit
from tests.e2e.workflows.deliveries.services import BOOKED_ONCE, UNDONE, asking, booked

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def _cancel(bench: Bench, task: str) -> int:
    async with bench.session.delete(f"/api/deliveries/{task}") as answer:
        return answer.status


async def _shown(bench: Bench, task: str) -> dict[str, Any]:
    async with bench.session.get(f"/api/deliveries/{task}") as answer:
        shown: dict[str, Any] = await answer.json()
        return shown


def _undone(bench: Bench, task: str) -> list[str]:
    return [effect for effect in bench.remote.effects(task) if effect.endswith("/undo")]


async def test_processed_delivery_is_cancelled_and_every_effect_undone(bench: Bench) -> None:
    """Its answer is shown as long as it counts; a repeated cancel changes nothing."""
    await submit(bench, "changed-my-mind")
    await bench.until_state("changed-my-mind", "Processed")
    answer = (await _shown(bench, "changed-my-mind"))["answer"]
    assert answer == {"tracking_number": "T-7", "expected_at": "2026-11-21T13:00:00Z"}
    assert [await _cancel(bench, "changed-my-mind") for _ in range(2)] == [202, 202]
    task = await bench.until_state("changed-my-mind", "Compensated")
    assert events(task) == ["submitted", "cancelled"]
    assert sorted(bench.remote.effects("changed-my-mind")[:4]) == BOOKED_ONCE
    assert _undone(bench, "changed-my-mind") == [f"{step}/undo" for step in UNDONE]
    assert booked(bench.remote, "changed-my-mind") == {"transport"}  # a quote: nothing is bound by it
    assert (await _shown(bench, "changed-my-mind"))["answer"] is None
    assert await _cancel(bench, "changed-my-mind") == 202


async def test_delivery_under_way_is_cancelled_with_what_is_still_running(bench: Bench) -> None:
    """The drone answers nobody any more: it is undone as an unknown outcome is."""
    drone = asking("on-its-way", "drone")
    bench.remote.script(drone, Behaviour.WAITS)
    await submit(bench, "on-its-way")
    await bench.until_called(drone)
    assert await _cancel(bench, "on-its-way") == 202
    task = await bench.until_state("on-its-way", "Compensated")
    bench.remote.release(drone, 0)
    assert events(task) == ["submitted", "cancelled"]
    assert _undone(bench, "on-its-way") == ["drone/undo", "package/undo"]


async def test_delivery_that_an_operator_must_look_at_is_the_operators(bench: Bench) -> None:
    """Its caller gets 409; the operator cancels, and the undo that was stuck is tried again."""
    bench.remote.script("stuck/delivery/do", Behaviour.BLUNDERS)
    bench.remote.script("stuck/delivery/undo", Behaviour.REFUSES)
    await submit(bench, "stuck")
    await bench.until_state("stuck", "Error")
    assert await _cancel(bench, "stuck") == 409
    bench.remote.script("stuck/delivery/undo", Behaviour.ANSWERS)
    assert await bench.act("stuck", "cancel") == 202
    task = await bench.until_state("stuck", "Compensated")
    assert events(task) == ["submitted", "refused", "cancelled"]
    assert await bench.act("stuck", "cancel") == 409
