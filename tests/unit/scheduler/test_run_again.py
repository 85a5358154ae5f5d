"""Durable runs an activity at least once: a run that was cut short goes on, and nothing is done twice."""

from __future__ import annotations

import asyncio

from functions.pattern.definition import Json
from tests.fakes.interventions import done
from tests.fakes.tasks import after, claimed, pending, started, told
from tests.fakes.workflows import LINE, TASK, step, workflow
from tests.unit.scheduler.bench import Bench, going_on, over


async def test_run_that_was_cut_short_calls_its_step_again_in_the_same_time() -> None:
    """A crash between start and outcome costs neither the complete-by nor a failure."""
    bench = Bench(LINE)
    bench.store.put(told(pending(LINE), claimed(), started("pick", complete_by=7)))
    bench.clock.advance(3)
    assert await bench.run() == over("Processed")
    assert bench.agents.steps == ["pick", "send"]
    assert bench.agents.calls[0].complete_by == after(7)
    task = bench.store.record(TASK).task
    assert (task.epoch, task.failure_count) == (1, 0)


async def test_other_run_leaves_it_alone() -> None:
    """A reply began it, while the first still works."""
    bench = Bench(LINE)
    bench.store.put(told(pending(LINE), claimed(), started("pick")))
    assert await bench.run(2, share=True) == going_on()
    assert bench.agents.calls == []


async def test_run_again_goes_on_after_its_recorded_outcomes() -> None:
    """Its answer was lost after all was done, or before the next step began."""
    bench = Bench(LINE)
    bench.store.put(told(pending(LINE), claimed(), *done("pick")))
    assert await bench.run() == over("Processed")
    assert bench.agents.steps == ["send"]
    writes = bench.store.writes
    assert await bench.run() == over("finished")
    assert bench.store.writes == writes


async def test_step_that_must_not_run_twice_is_not_called_again() -> None:
    """Its outcome is unknown; a neighbour is called again."""
    once = workflow(step("pay", idempotent=False), step("note"), name="once")
    bench = Bench(once)
    bench.store.put(told(pending(once), claimed(), started("pay"), started("note")))
    assert await bench.run() == going_on()
    assert bench.agents.steps == ["note"]
    assert bench.states == {"pay": "Running", "note": "Completed"}


async def test_two_runs_of_one_number_at_once_record_each_outcome_once() -> None:
    """Durable believes the first one dead, and it is not: the effect key keeps the effect single."""
    bench = Bench(LINE)
    bench.agents.slow("pick")
    both = [asyncio.create_task(bench.run()) for _ in range(2)]
    while len(bench.agents.calls) < 2:
        await asyncio.sleep(0)
    bench.agents.let_go("pick")
    await asyncio.gather(*both)
    assert bench.agents.steps == ["pick", "pick", "send"]
    assert bench.agents.calls[0] == bench.agents.calls[1]
    assert bench.state == "Processed"


async def test_step_that_must_not_run_twice_is_called_by_one_of_two_runs() -> None:
    """By the one whose start is recorded, whichever numbers they have."""
    once = workflow(step("pay", idempotent=False), name="once")
    for number in (1, 2):
        bench = Bench(once)
        bench.agents.slow("pay")
        both = [asyncio.create_task(bench.run(each)) for each in (1, number)]
        await bench.agents.until_called("pay")
        bench.agents.let_go("pay")
        await asyncio.gather(*both)
        assert bench.agents.steps == ["pay"]
        assert bench.state == "Processed"


async def test_two_runs_at_once_call_each_step_once() -> None:
    """A reply's run meets the first one's outcome: what both see as ready is started by one of them."""
    bench = Bench(workflow(step("pick"), step("send", "pick"), step("note", "pick"), name="fan"))
    second: list[asyncio.Task[object]] = []

    def meet() -> Json:
        second.append(asyncio.create_task(bench.run(2, share=True)))
        return {}

    bench.agents.behaviours["pick"] = meet
    await bench.run()
    await asyncio.gather(*second)
    assert sorted(bench.agents.steps) == ["note", "pick", "send"]
    assert bench.state == "Processed"
