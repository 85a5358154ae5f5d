"""What is undone of a delivery that cannot be made, and what remains when the undo fails."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.recovery.bench import Bench, events, step
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.workflows.deliveries.bench import submit
from tests.e2e.workflows.deliveries.services import STEPS, UNDONE, asking, booked

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


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (Behaviour.REFUSES, "{} answered 422"),
        (Behaviour.IS_DOWN, "still overdue after 2 recoveries ({} "),
    ],
)
async def test_undo_that_fails_permanently_is_an_error_that_names_the_step(
    bench: Bench, behaviour: Behaviour, reason: str
) -> None:
    """The steps that would be undone next stay as they were, and the operator gets one alert."""

    async def stuck_at(name: str) -> None:
        task = f"{behaviour.name.lower()}-undo-{name}"
        bench.remote.script(f"{task}/delivery/do", Behaviour.BLUNDERS)
        bench.remote.script(f"{task}/{name}/undo", behaviour)
        await submit(bench, task)
        found = await bench.until_state(task, "Error")
        assert found["last_error"].startswith(f"undo of {name}: {reason.format(name)}")
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


@pytest.mark.parametrize(
    ("behaviour", "event"), [(Behaviour.BLUNDERS, "refused"), (Behaviour.FORGETS, "exhausted")]
)
async def test_nothing_is_undone_at_account_and_transport(
    bench: Bench, behaviour: Behaviour, event: str
) -> None:
    """An account was only read, and a quote is not binding, whether or not the outcome is known."""

    async def given_up_at(name: str, *, undone: list[str], standing: set[str]) -> None:
        task = f"{event}-{name}"
        bench.remote.script(asking(task, name), behaviour)
        await submit(bench, task)
        found = await bench.until_state(task, "Compensated")
        assert events(found)[-1] == event
        assert _undone_at(bench, task) == undone
        assert booked(bench.remote, task) == standing

    await asyncio.gather(
        given_up_at("account", undone=[], standing=set()),
        given_up_at("transport", undone=["package"], standing={"transport"}),
    )


def _undone_at(bench: Bench, task: str) -> list[str]:
    """Return the services that were called to undo something of a task, in order."""
    undos = {f"{task}/{name}/undo" for name in STEPS}
    return [call.step for call in bench.remote.calls if call.effect in undos]
