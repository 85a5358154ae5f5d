"""What a definition says by `when` and `request`: steps are skipped, and a defect harms no other step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.identity import StepName
from functions.pattern.states import StepState
from tests.fakes.interventions import done, recovered
from tests.fakes.tasks import claimed, pending, started, told
from tests.fakes.workflows import step, workflow
from tests.unit.scheduler.bench import Bench, going_on, over

PICK = StepName("pick")

HEAVY = workflow(
    step("pick"),
    step("crane", "pick", when=lambda parcel, _: parcel.weight > 5),
    step("send", "crane", when=lambda _, results: results[PICK].get("bin") == "A7"),
    name="heavy",
)


@pytest.mark.parametrize(("bin_", "called"), [("A7", ["pick", "send"]), ("B1", ["pick"])])
async def test_step_that_the_order_does_not_need_is_skipped(bin_: str, called: list[str]) -> None:
    """By payload and results; the skip and the start that follows from it are one change."""
    bench = Bench(HEAVY)
    writes = bench.store.writes
    bench.agents.behaviours["pick"] = lambda: {"bin": bin_}
    assert await bench.run() == over("Processed")
    assert bench.agents.steps == called
    assert bench.step("crane").state is StepState.SKIPPED
    assert bench.store.writes == writes + 1 + len(called)


async def test_step_that_was_begun_is_not_judged_again() -> None:
    """Whatever its condition says today: its effect may stand, so its outcome is found out."""
    bench = Bench(HEAVY)
    bench.store.put(recovered(told(pending(HEAVY), claimed(), *done("pick"), started("crane"))))
    await bench.run(epoch=2)
    assert bench.agents.steps == ["crane"]


def _broken(*_: object) -> Any:
    raise KeyError("bin")


async def test_broken_condition_starts_nothing_and_loops_not(caplog: pytest.LogCaptureFixture) -> None:
    """What needs nothing of it goes on; the rest is found by the Supervisor."""
    bench = Bench(workflow(step("pick", when=_broken), step("send", "pick"), step("note"), name="broken"))
    assert await bench.run() == going_on()
    assert bench.agents.steps == ["note"]
    assert bench.states == {"pick": "NotStarted", "send": "NotStarted", "note": "Completed"}
    assert caplog.text.count("step pick is not started") == 1


async def test_broken_request_starts_nothing_of_its_own() -> None:
    """It is found out before anything is recorded, and no neighbour is harmed."""
    broken = replace(step("pick"), request=_broken)
    bench = Bench(workflow(broken, step("note"), step("send", "note"), name="broken"))
    assert await bench.run() == going_on()
    assert bench.states == {"pick": "NotStarted", "note": "Completed", "send": "Completed"}
