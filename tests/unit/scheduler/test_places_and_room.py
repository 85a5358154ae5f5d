"""Places at limited services, of runs that have more steps than they do at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest

from functions.agents.places import CallPlace
from functions.pattern.errors import TransientError
from functions.pattern.events import Event
from functions.pattern.folding import Follow, Told, fold
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.states import ProcessState, StepState
from functions.pattern.store_ports import Changed
from tests.fakes.tasks import started
from tests.fakes.workflows import TASK, each, step, workflow
from tests.unit.scheduler.places_bench import PlacesBench

_ITEMS = workflow(each("pay"))
#: Seconds for which a place is waited for here.
_PATIENCE = 0.1


@pytest.fixture(autouse=True)
def _be_short_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.scheduler.run_places.PLACE_SECONDS", _PATIENCE)


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_runs_that_share_steps_start_them_when_their_places_come() -> None:
    """An instance that has no share yet gets its places a moment later, for more than a run does at once."""
    bench = PlacesBench(_ITEMS, services={"pay": 5}, steps_at_once=2)
    assert (await bench.run())["runs"] == 2
    shares = await asyncio.gather(bench.run(number=2, share=True), bench.run(number=3, share=True))
    assert any(each["over"] for each in shares)
    assert bench.store.record(TASK).task.process_state is ProcessState.PROCESSED


async def test_task_whose_many_steps_have_no_place_is_put_off() -> None:
    """Also by runs that share them: it is nobody's failure."""
    bench = PlacesBench(_ITEMS, steps_at_once=2)
    await bench.taken_elsewhere()
    assert (await bench.run())["runs"] == 2
    await asyncio.gather(bench.run(number=2, share=True), bench.run(number=3, share=True))
    assert bench.store.record(TASK).task.process_state is ProcessState.PENDING


async def test_task_is_put_off_when_the_last_step_beside_those_without_a_place_ends() -> None:
    """Else the next look would come after its complete-by, which counts as a recovery."""
    bench = PlacesBench(workflow(step("log"), each("pay")), steps_at_once=2)
    await bench.taken_elsewhere()
    async with bench.running_beside("log", share=True):
        pass
    assert bench.store.record(TASK).task.process_state is ProcessState.PENDING


async def test_step_without_a_place_gets_it_beside_a_long_step() -> None:
    """However long that is: the service does not lie idle meanwhile."""
    bench = PlacesBench(workflow(step("log"), step("pay")))
    taken = await bench.taken_here()
    async with bench.running_beside("log"):
        await asyncio.sleep(3 * _PATIENCE)
        taken.release()
        await _until(lambda: bench.state_of("pay") is StepState.COMPLETED)


async def test_step_that_was_given_up_gets_its_place_beside_a_long_step_that_began_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two services are busy. One has a place a moment after the other was waited for in vain."""
    bench = PlacesBench(workflow(step("x"), step("y")), services={"x": 1, "y": 1})
    taken, turn = await bench.taken_here("x"), await bench.taken_here("y")
    take, of_y = bench.places["y"].take, asyncio.Event()

    async def later(_seconds: float | None = None) -> CallPlace | None:
        await of_y.wait()
        return await take()

    monkeypatch.setattr(bench.places["y"], "take", later)
    bench.agents.slow("y")
    running = asyncio.create_task(bench.run())
    await asyncio.sleep(3 * _PATIENCE)  # x is given up
    turn.release()
    of_y.set()
    await bench.agents.until_called("y")
    taken.release()
    await _until(lambda: bench.state_of("x") is StepState.COMPLETED)
    bench.agents.let_go("y")
    await running


async def test_step_whose_place_comes_while_the_store_is_away_is_started_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside a long step, before whose end nobody else looks at the task."""
    bench = PlacesBench(workflow(step("log"), step("pay")))
    taken, failed = await bench.taken_here(), asyncio.Event()

    async def away(*_: object, **__: object) -> Changed | Refused:
        failed.set()
        raise TransientError("the state store does not answer")

    async with bench.running_beside("log"):
        with monkeypatch.context() as outage:
            outage.setattr(bench.store, "change", away)
            taken.release()
            await failed.wait()
        await _until(lambda: bench.state_of("pay") is StepState.COMPLETED)


async def test_place_that_comes_when_its_step_has_begun_after_all_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its start was written though nobody heard; the run learns of it by the outcome of another step."""
    bench = PlacesBench(workflow(step("log"), step("note"), step("pay")))
    taken, failed, change = await bench.taken_here(), asyncio.Event(), bench.store.change

    async def lost(task: TaskId, event: Event, *, follow: Follow, until: datetime) -> Changed | Refused:
        await change(task, event, follow=follow, until=until)
        failed.set()
        raise TransientError("connection lost")

    async def away(_: TaskId) -> None:
        raise TransientError("no route to host")

    async with bench.running_beside("log", "note", "pay"):
        await bench.agents.until_called("note")
        with monkeypatch.context() as outage:
            outage.setattr(bench.store, "change", lost)
            outage.setattr(bench.store, "load", away)
            taken.release()
            await failed.wait()
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            taken = await bench.taken_here()  # another task's step is faster
        await asyncio.sleep(2 * _PATIENCE)  # the place is waited for anew
        bench.agents.let_go("note")
        await bench.agents.until_called("pay")
        taken.release()
        await asyncio.sleep(2 * _PATIENCE)
        async with asyncio.timeout(10):
            await bench.taken_here()


async def test_run_that_began_late_leaves_nothing_that_it_could_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though its first place came a moment after its claim: nobody else would begin it."""
    bench = PlacesBench(workflow(step("pay", complete_within=270)))
    known = bench.store.known

    async def slow(task: TaskId) -> TaskRecord | None:
        bench.clock.advance(20)
        return await known(task)

    monkeypatch.setattr(bench.store, "known", slow)
    await bench.run(number=2, share=True)
    assert bench.store.record(TASK).task.process_state is ProcessState.PROCESSED


async def test_place_of_a_step_whose_request_fails_is_free() -> None:
    """Though another step lasts; it could be made when it was looked at."""
    made = iter([dict[str, int]()])
    bench = PlacesBench(workflow(step("log"), replace(step("pay"), request=lambda *_: next(made))))
    (await bench.taken_here()).release()
    async with bench.running_beside("log"), asyncio.timeout(10):
        await bench.taken_here()


async def test_place_of_a_step_that_another_run_started_first_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This run had planned its start, too, and plans again, on the newer record."""
    bench = PlacesBench(workflow(step("log"), step("pay")))
    (await bench.taken_here()).release()
    change, before = bench.store.change, list[Event]()

    async def second(task: TaskId, event: Event, *, follow: Follow, until: datetime) -> Changed | Refused:
        if not before:
            before.append(event)
            fold(bench.store.record(TASK), [Told(event, follow)], bench.clock.now())
            await change(task, event, until=until)
            await change(task, started("pay", activity=2), until=until)
        return await change(task, event, follow=follow, until=until)

    monkeypatch.setattr(bench.store, "change", second)
    async with bench.running_beside("log"), asyncio.timeout(10):
        await bench.taken_here()


async def test_place_that_came_when_there_was_no_room_any_more_is_free() -> None:
    """Another step lasts: the service does not lie idle for as long as that."""
    bench = PlacesBench(workflow(step("pay"), step("log")), steps_at_once=1)
    async with bench.running_beside("log", share=True), asyncio.timeout(10):
        await bench.taken_here()


async def test_place_that_was_taken_for_an_item_that_is_not_needed_is_the_next_items() -> None:
    """It was taken before the condition was asked, as a step before it had none."""
    part = each("part", when=lambda _parcel, _results, item: item == 3)
    flow = workflow(step("slow"), step("s0"), part)
    bench = PlacesBench(flow, services={"s0": 1, "part": 1}, steps_at_once=2)
    (await bench.taken_here("part")).release()
    await bench.taken_elsewhere("s0")
    async with bench.running_beside("slow", share=True):
        await _until(lambda: bench.state_of("part.2") is StepState.COMPLETED)
        assert bench.state_of("part.1") is StepState.SKIPPED


async def test_run_holds_no_more_places_than_it_does_steps() -> None:
    """All were waited for, as the instance had no share at first, and all came."""
    bench = PlacesBench(workflow(step("log"), each("pay")), services={"pay": 4}, steps_at_once=2)
    slow = ("pay.0", "log", "pay.1", "pay.2")
    async with bench.running_beside(*slow, share=True), asyncio.timeout(10):
        for _ in range(3):
            await bench.taken_here()


async def test_step_that_is_waited_for_anew_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was given up, which could not be told, and another step began meanwhile."""
    bench = PlacesBench(workflow(step("x"), step("y")), services={"x": 1, "y": 1})
    place, turn = await bench.taken_here("x"), await bench.taken_here("y")
    change, take, comes, fails = bench.store.change, bench.places["y"].take, asyncio.Event(), asyncio.Event()
    told = list[Event]()

    async def later(_seconds: float | None = None) -> CallPlace | None:
        await comes.wait()
        return await take()

    async def second_fails(
        task: TaskId, event: Event, *, follow: Follow, until: datetime
    ) -> Changed | Refused:
        told.append(event)
        if len(told) == 2:
            await fails.wait()
            raise TransientError("no store")
        return await change(task, event, follow=follow, until=until)

    monkeypatch.setattr(bench.places["y"], "take", later)
    monkeypatch.setattr(bench.store, "change", second_fails)
    bench.agents.slow("y")
    running = asyncio.create_task(bench.run())
    await _until(lambda: len(told) == 2)
    turn.release()
    comes.set()
    await bench.agents.until_called("y")
    fails.set()
    await asyncio.sleep(3 * _PATIENCE)
    place.release()
    await _until(lambda: bench.state_of("x") is StepState.COMPLETED)
    await asyncio.sleep(3 * _PATIENCE)
    async with asyncio.timeout(5):
        (await bench.taken_here("x")).release()
    bench.agents.let_go("y")
    await running
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
