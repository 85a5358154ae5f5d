"""What a definition says by `when` and `request`: steps are skipped, and a defect harms no other step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import Remedy, StepState, Way
from functions.pattern.transitions import apply
from tests.fakes.interventions import done, recovered, refused, resubmission
from tests.fakes.tasks import claimed, pending, started, told
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.bench import Bench, over

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


@pytest.mark.parametrize("remedy", [Remedy.COMPENSATE, Remedy.HOLD])
async def test_defect_in_a_condition_holds_the_task_at_once(
    remedy: Remedy, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its remedy, and before anything that follows is begun; its cause stands on the step."""
    steps = (step("pick"), step("send", "pick", when=_broken), step("note", "pick"))
    bench = Bench(workflow(*steps, name="broken", remedy=remedy))
    assert await bench.run() == over("Error")
    assert bench.agents.steps == ["pick"]
    assert bench.states == {"pick": "Completed", "send": "Failed", "note": "NotStarted"}
    assert bench.step("send").error == "KeyError: 'bin'"
    assert bench.store.record(TASK).task.last_error == "send: KeyError: 'bin'"
    assert caplog.text.count("step send is not started") == 1


@pytest.mark.parametrize("via", [Way.ACTIVITY, Way.QUEUE])
async def test_defect_in_a_request_holds_the_task_at_once(via: Way) -> None:
    """Nothing was sent. After the right deployment an operator resubmits it."""
    broken = replace(step("send", "pick", idempotent=False, via=via), request=_broken)
    bench = Bench(workflow(step("pick"), broken, name="broken", remedy=Remedy.COMPENSATE))
    assert await bench.run() == over("Error")
    assert (bench.step("send").state, bench.step("send").error) == (StepState.FAILED, "KeyError: 'bin'")
    again = apply(bench.store.record(TASK), resubmission(), bench.clock.now())
    assert isinstance(again, TaskRecord)
    assert again.step(StepName("send")).state is StepState.NOT_STARTED


async def test_defect_in_an_undo_is_held_as_a_refused_undo_is() -> None:
    """What is left undone stays to be undone."""
    broken = replace(step("pick", undo=True), request=_broken)
    of = workflow(broken, name="broken", remedy=Remedy.COMPENSATE)
    bench = Bench(of)
    bench.store.put(told(pending(of), claimed(), *refused("pick")))
    assert await bench.run(epoch=2) == over("Error")
    assert bench.store.record(TASK).task.last_error == "undo of pick: KeyError: 'bin'"
