"""What is undone of a delivery that cannot be made, and what remains when the undo fails."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.recovery.bench import Bench, events, step
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.workflows.deliveries.bench import submit
from tests.e2e.workflows.deliveries.services import STEPS, UNDONE, booked

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def test_undo_goes_in_reverse(bench: Bench) -> None:
    """The delivery is refused although it was scheduled: delivery, drone and package are undone."""
    bench.remote.script("blunder/delivery/do", Behaviour.BLUNDERS)
    await submit(bench, "blunder")
    task = await bench.until_state("blunder", "Compensated")
    assert events(task) == ["submitted", "refused"]
    assert task["last_error"] == "delivery: delivery answered 422"
    assert bench.remote.effects("blunder")[2:] == [
        "drone/do",
        "delivery/do",
        "delivery/undo",
        "drone/undo",
        "package/undo",
    ]
    assert _undone_at(bench, "blunder") == list(UNDONE)


async def test_undo_that_fails_permanently_is_an_error_that_names_the_step(bench: Bench) -> None:
    """The steps that would be undone next stay as they were, and the operator gets one alert."""

    async def stuck_at(name: str) -> None:
        task = f"refused-undo-{name}"
        bench.remote.script(f"{task}/delivery/do", Behaviour.BLUNDERS)
        bench.remote.script(f"{task}/{name}/undo", Behaviour.REFUSES)
        await submit(bench, task)
        found = await bench.until_state(task, "Error")
        assert found["last_error"].startswith(f"undo of {name}: {name} answered 422")
        done = UNDONE.index(name)
        assert {each: step(found, each)["state"] for each in UNDONE} == {
            **dict.fromkeys(UNDONE[:done], "Undone"),
            name: "Undoing",
            **dict.fromkeys(UNDONE[done + 1 :], "Completed"),
        }
        assert booked(bench.remote, task) == {"transport", *UNDONE[done:]}
        await bench.until_alerted(task)
        assert len(bench.remote.alerts_about(task)) == 1

    await asyncio.gather(*map(stuck_at, UNDONE))


def _undone_at(bench: Bench, task: str) -> list[str]:
    """Return the services that were called to undo something of a task, in order."""
    undos = {f"{task}/{name}/undo" for name in STEPS}
    return [call.step for call in bench.remote.calls if call.effect in undos]
