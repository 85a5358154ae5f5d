"""Many steps at a time: none waits for what it does not need, and runs share what is too much for one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.pattern.definition import Workflow
from functions.pattern.errors import TransientError
from functions.scheduler.progress import Progress
from tests.fakes.agents import raising
from tests.fakes.runners import limits
from tests.fakes.workflows import DIAMOND, step, workflow
from tests.unit.scheduler.bench import Bench, going_on, over


def _wide(count: int) -> Workflow:
    return workflow(
        *(step(f"s{number}", complete_within=20) for number in range(count)), step("last", "s0"), name="wide"
    )


async def test_independent_steps_run_side_by_side() -> None:
    """Neither side of the diamond waits for the other; the last step waits for both, and starts once."""
    bench = Bench(DIAMOND)
    bench.agents.slow("left", "right")
    running = asyncio.create_task(bench.run())
    await bench.agents.until_called("left", "right")
    bench.agents.let_go("left", "right")
    assert await running == over("Processed")
    assert bench.agents.steps == ["open", "left", "right", "close"]


async def test_slow_step_holds_up_only_what_needs_it() -> None:
    """What another makes ready begins at once."""
    bench = Bench(workflow(step("slow"), step("quick"), step("after", "quick"), name="forked"))
    bench.agents.slow("slow", "after")
    running = asyncio.create_task(bench.run())
    await bench.agents.until_called("slow", "after")
    assert bench.step("quick").state == "Completed"
    bench.agents.let_go("slow", "after")
    assert await running == over("Processed")


async def test_one_that_fails_does_not_end_its_neighbours() -> None:
    """The others go on, and what follows from them."""
    bench = Bench(workflow(step("bad"), step("good"), step("after", "good"), name="forked"))
    bench.agents.behaviours["bad"] = raising(RuntimeError("a defect"))
    assert await bench.run() == going_on()
    assert bench.states == {"bad": "Running", "good": "Completed", "after": "Completed"}


async def test_too_much_for_one_run_is_left_to_several() -> None:
    """The first starts nothing; the others, which may run in other processes, start their shares."""
    bench = Bench(_wide(7), limits(at_once=3))
    assert await bench.run() == going_on(runs=3)
    assert bench.agents.calls == []
    names = [f"s{number}" for number in range(7)]
    bench.agents.slow(*names)
    running = [asyncio.create_task(bench.run(number, share=True)) for number in (2, 3, 4)]
    await bench.agents.until_called(*names)
    assert [bench.step(name).activity for name in names] == [2, 2, 2, 3, 3, 3, 4]
    bench.agents.let_go(*names)
    assert [each["runs"] for each in await asyncio.gather(*running)] == [0, 0, 0]
    assert bench.state == "Processed"


async def test_run_starts_more_as_room_comes() -> None:
    """It has never more under way than it may."""
    bench = Bench(_wide(7), limits(at_once=3))
    under_way: list[int] = []
    for number in range(7):
        bench.agents.behaviours[f"s{number}"] = lambda: _count(bench, under_way)
    assert await bench.run(2, share=True) == over("Processed")
    assert max(under_way) == 3


def _count(bench: Bench, under_way: list[int]) -> dict[str, bool]:
    under_way.append(list(bench.states.values()).count("Running"))
    return {}


async def test_step_that_might_outlast_the_activity_is_left_to_a_fresh_one() -> None:
    """Which begins with it, whatever time it needs."""
    bench = Bench(workflow(step("pick"), step("send", "pick", complete_within=290), name="long"))
    assert await bench.run() == going_on(runs=1)
    assert bench.agents.steps == ["pick"]
    assert await bench.run(2, share=True) == over("Processed")
    assert bench.agents.steps == ["pick", "send"]


async def test_run_that_finds_nothing_to_do_asks_for_no_other() -> None:
    """However long: runs that can do nothing make no chain."""
    bench = Bench(workflow(step("pick"), step("send", "pick"), name="line"))
    bench.agents.slow("pick")
    first = asyncio.create_task(bench.run())
    await bench.agents.until_called("pick")
    assert await bench.run(2, share=True) == going_on()
    bench.agents.let_go("pick")
    assert await first == over("Processed")


async def test_runs_that_can_begin_nothing_make_no_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should what is ready never start, whatever the defect, the Supervisor finds it."""
    bench = Bench(workflow(step("send", complete_within=290), name="long"))
    change = bench.store.change

    async def without_starts(*given: Any, **options: Any) -> Any:
        return await change(*given, **{**options, "follow": None})

    monkeypatch.setattr(bench.store, "change", without_starts)
    assert await bench.run(2, share=True) == going_on()


async def test_steps_without_room_are_left_to_others_when_all_have_expired() -> None:
    """Expired ones take their room until they are recovered."""
    bench = Bench(_wide(3), limits(at_once=2))
    for number in range(3):
        bench.agents.behaviours[f"s{number}"] = raising(TransientError("no answer"))
    progress: list[Progress] = [await bench.run(2, share=True)]
    assert progress == [going_on(runs=1)]
    assert await bench.run(3, share=True) == going_on()
    assert bench.agents.steps == ["s0", "s1", "s2"]


async def test_step_that_is_not_needed_takes_no_room() -> None:
    """It is skipped at once, so that what needs it can begin."""
    skip = step("skip", "quick", when=lambda *_: False)
    bench = Bench(workflow(step("slow"), step("quick"), step("next", "quick"), skip), limits(at_once=2))
    bench.agents.slow("slow", "next")
    running = asyncio.create_task(bench.run())
    await bench.agents.until_called("slow", "next")
    assert bench.states["skip"] == "Skipped"
    bench.agents.let_go("slow", "next")
    await running
