"""Steps whose service bears few calls at a time: they start in a place, or their task is put off."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from functions.agents import places as places_module
from functions.pattern.errors import TransientError
from functions.pattern.events import Event
from functions.pattern.folding import Follow, Told, fold
from functions.pattern.identity import StepName, TaskId
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, StepState
from tests.fakes.tasks import after, pending
from tests.fakes.workflows import TASK, step, workflow
from tests.unit.scheduler.bench import going_on, over
from tests.unit.scheduler.places_bench import ONE, PlacesBench

_TWO = workflow(step("pay"), step("log"))


@pytest.fixture(autouse=True)
def _be_short_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.scheduler.run_places.PLACE_SECONDS", 0.1)
    assert places_module.PLACE_SECONDS == 1


async def test_step_that_finds_a_place_is_done() -> None:
    """Though the instance had no share when it looked first; the place is free afterwards."""
    bench = PlacesBench()
    for task in ("done", "done again"):
        assert await bench.run() == over("Processed"), task
        bench.store.put(pending(ONE))
    assert bench.agents.steps == ["pay", "pay"]
    assert len(bench.rows.written) <= 2


async def test_nothing_is_written_where_nothing_is_limited() -> None:
    """Nor read."""
    bench = PlacesBench(services={"pay": None})
    assert await bench.run() == over("Processed")
    assert (bench.rows.reads, bench.rows.written) == (0, [])


async def test_step_without_a_place_has_its_task_put_off() -> None:
    """It has not started, no time of it has passed, and the next run finds a place."""
    bench = PlacesBench()
    elsewhere = await bench.taken_elsewhere()
    assert (await bench.run())["over"]
    task = bench.store.record(TASK).task
    assert (task.process_state, task.run, task.failure_count) == (ProcessState.PENDING, 1, 0)
    assert task.not_before is not None
    assert after(1) < task.not_before < after(60)
    assert bench.state_of("pay") is StepState.NOT_STARTED
    elsewhere.release()
    bench.clock.advance(60)
    assert (await bench.run(1))["state"] in {"Processed", "Pending"}


async def test_time_of_a_step_begins_when_it_has_its_place() -> None:
    """Not while it waited for it."""
    bench = PlacesBench()
    first = await bench.taken_here()
    running = asyncio.create_task(bench.run())
    await asyncio.sleep(0.02)
    bench.clock.advance(7)
    first.release()
    assert await running == over("Processed")
    assert bench.store.record(TASK).step(StepName("pay")).started_at == after(7)


async def test_others_go_on_beside_a_step_without_a_place() -> None:
    """The run ends with its time to try again: a run of the same Scheduler begins then."""
    bench = PlacesBench(_TWO)
    await bench.taken_elsewhere()
    bench.agents.slow("log")
    running = asyncio.create_task(bench.run())
    await bench.agents.until_called("log")
    await asyncio.sleep(0.2)
    assert bench.state_of("pay") is StepState.NOT_STARTED
    other = await bench.run(number=2, share=True)
    assert other == going_on() | {"again_at": other["again_at"]}
    bench.agents.let_go("log")
    assert (await running)["over"]
    assert bench.state_of("log") is StepState.COMPLETED
    assert bench.store.record(TASK).task.process_state is ProcessState.PENDING


async def test_place_of_a_step_whose_agent_failed_is_free() -> None:
    """As after any other outcome."""
    bench = PlacesBench()

    def fail() -> dict[str, bool]:
        raise RuntimeError("defect")

    bench.agents.behaviour = fail
    await bench.run()
    async with asyncio.timeout(5):
        await bench.taken_here()


@pytest.mark.parametrize("another_claims", [False, True])
async def test_place_that_was_taken_for_a_claim_is_free_when_that_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch, *, another_claims: bool
) -> None:
    """Else it is missing as long as the process lives, and after enough of them, the service has no calls."""
    bench = PlacesBench()
    (await bench.taken_here()).release()

    async def lose(_: TaskId, event: Event, *, follow: Follow, until: datetime) -> Refused:  # noqa: ARG001
        fold(bench.store.record(TASK), [Told(event, follow)], bench.clock.now())
        if another_claims:
            return Refused(RefusalReason.NOT_HOLDER)
        raise TransientError("no store")

    monkeypatch.setattr(bench.store, "change", lose)
    await bench.run()
    assert bench.places["pay"].take_now() is not None
