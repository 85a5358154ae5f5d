"""Steps whose service accepts few calls at a time: they start in a place, or their task is put off."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from functions.agents import places as places_module
from functions.agents.breaker import Breaker
from functions.agents.places import CallPlace, Places
from functions.pattern.breaker import BreakerPolicy
from functions.pattern.definition import Registry, Step, Workflow
from functions.pattern.errors import TransientError
from functions.pattern.events import Event
from functions.pattern.folding import Follow, Told, fold
from functions.pattern.identity import StepName, TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.states import ProcessState, StepState
from functions.pattern.store_ports import Changed
from functions.scheduler.progress import Progress, RunInput
from functions.scheduler.run_steps import RunSteps
from functions.store.state_store import TableStateStore
from functions.store.task_writer import TaskWriter
from functions.store.transactions import Committed, Conflicted, Transaction
from tests.fakes.agents import ScriptedAgent
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.chance import seeded
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.runners import RecordedRequests, limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import after, pending, started
from tests.fakes.virtual_time import VirtualClock, in_virtual_time
from tests.fakes.workflows import TASK, each, step, workflow
from tests.unit.scheduler.bench import going_on, over
from tests.unit.store.rows import MemoryRows

ONE = workflow(step("pay"))
_POLICY = BreakerPolicy(failures=5, open_for=timedelta(seconds=15))


class PlacesBench:
    """One instance, whose payment service bears one call at a time, unless other `services` are given.

    Each run does so many steps at once. Another instance may have taken a place.
    """

    def __init__(
        self,
        of: Workflow = ONE,
        *,
        services: Mapping[str, int | None] | None = None,
        steps_at_once: int = 16,
    ) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.rows = MemoryBreakerRows()
        self.agents = ScriptedAgent()
        self.ports = fake_ports(
            store=self.store, clock=self.clock, breakers=self.rows, agent_messages=RecordedRequests()
        )
        self.services = services or {"pay": 1}
        self.places: Mapping[str, Places] = {
            name: Breaker(name, self.ports, _POLICY, at_once=at_once).places
            for name, at_once in self.services.items()
        }
        agents = {each.agent: self.agents for each in of.steps}
        bounds = limits(at_once=steps_at_once)
        self.runs = RunSteps(self.ports, agents, Registry((of,), {}), bounds, self.places)
        self.store.put(pending(of))

    async def taken_elsewhere(self, service: str = "pay") -> CallPlace:
        """Have one more instance take a place."""
        place = await Breaker(service, self.ports, _POLICY, at_once=self.services[service]).places.take()
        assert place is not None
        return place

    async def taken_here(self, service: str = "pay") -> CallPlace:
        """Take a place on this instance, which has a share from then on."""
        place = await self.places[service].take()
        assert place is not None
        return place

    async def run(self, run: int | None = None, *, share: bool = False, number: int = 1) -> Progress:
        """Run the activity of a run's Scheduler."""
        given = RunInput(task=TASK, epoch=1, number=number, share=share)
        if run is not None:
            given["run"] = run
        return await self.runs.run(given)

    @asynccontextmanager
    async def running_beside(self, *slow: str, share: bool = False) -> AsyncIterator[None]:
        """Have a run go on within the block, whose `slow` steps end after it; the first of them is called."""
        self.agents.slow(*slow)
        running = asyncio.create_task(self.run(share=share))
        await self.agents.until_called(slow[0])
        try:
            yield
        finally:
            self.agents.let_go(*slow)
            await running

    def state_of(self, name: str) -> StepState:
        """Look at a step."""
        return self.store.record(TaskId(TASK)).step(StepName(name)).state


#: Seconds for which a place is waited for here.
_PATIENCE = 0.1
_TWO = workflow(step("pay"), step("log"))


@pytest.fixture(autouse=True)
def _be_short_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functions.scheduler.run_places.PLACE_SECONDS", _PATIENCE)
    assert places_module.PLACE_SECONDS == 1


async def test_nothing_is_written_where_nothing_is_limited() -> None:
    """Nor read."""
    bench = PlacesBench(services={"pay": None})
    assert await bench.run() == over("Processed")
    assert (bench.rows.reads, bench.rows.written) == (0, [])
    # Step that finds a place is done.
    bench = PlacesBench()
    for task in ("done", "done again"):
        assert await bench.run() == over("Processed"), task
        bench.store.put(pending(ONE))
    assert bench.agents.steps == ["pay", "pay"]
    assert len(bench.rows.written) <= 2


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
    # Place of a step whose request fails is free.
    made = iter([dict[str, int]()])
    bench = PlacesBench(workflow(step("log"), replace(step("pay"), request=lambda *_: next(made))))
    (await bench.taken_here()).release()
    async with bench.running_beside("log"), asyncio.timeout(10):
        await bench.taken_here()
    # Place that came when there was no room any more is free.
    bench = PlacesBench(workflow(step("pay"), step("log")), steps_at_once=1)
    async with bench.running_beside("log", share=True), asyncio.timeout(10):
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


_ITEMS = workflow(each("pay"))


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


class _Nobody:
    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Announce nothing."""


class _WritingBench:
    """A process whose changes of the task go through the task writer; `pay` bears one call at a time."""

    def __init__(self, of: Workflow, *, steps_at_once: int = 16) -> None:
        clock = VirtualClock()
        self.rows = MemoryRows(pending(of))
        self.agents = ScriptedAgent()
        writer = TaskWriter(self.rows, clock=clock, new_id=lambda: uuid.uuid4().hex, random=seeded(1))
        store = TableStateStore(self.rows, writer, _Nobody())  # type: ignore[arg-type]
        ports = fake_ports(store=store, clock=clock, breakers=MemoryBreakerRows())
        policy = BreakerPolicy(failures=5, open_for=timedelta(seconds=15))
        self._places: Mapping[str, Places] = {"pay": Breaker("pay", ports, policy, at_once=1).places}
        agents = {each.agent: self.agents for each in of.steps}
        registry, bounds = Registry((of,), {}), limits(at_once=steps_at_once)
        self._runs = RunSteps(ports, agents, registry, bounds, self._places)

    @asynccontextmanager
    async def running(self, *slow: str) -> AsyncIterator[None]:
        """Have a run go on within the block and to its end, which lets go its `slow` steps."""
        self.agents.slow(*slow)
        running = asyncio.create_task(self._runs.run(RunInput(task=TASK, epoch=1, number=1, share=True)))
        try:
            yield
        finally:
            self.agents.let_go(*slow)
            await running

    async def taken(self) -> CallPlace:
        """Take the one place, as the step of another task does."""
        place = await self._places["pay"].take(10)
        assert place is not None
        return place

    def is_free(self) -> bool:
        """Tell whether the one place is free."""
        place = self._places["pay"].take_now()
        if place is not None:
            place.release()
        return place is not None


def test_step_keeps_the_place_that_another_outcome_found_for_it() -> None:
    """Its own place comes while the run is full, and a moment later a step ends: both are told at once."""

    async def scenario() -> None:
        bench = _WritingBench(workflow(step("pay"), step("log")), steps_at_once=1)
        place = await bench.taken()
        async with bench.running("log", "pay"):
            await bench.agents.until_called("log")
            await asyncio.sleep(2 * _PATIENCE)
            bench.rows.gate.clear()
            place.release()
            await bench.rows.until_waiting()
            bench.agents.let_go("log")
            await asyncio.sleep(0.01)
            bench.rows.gate.set()
            await bench.agents.until_called("pay")
            assert not bench.is_free()

    in_virtual_time(scenario())


def test_step_keeps_its_place_when_an_outcome_starts_it_after_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That its place had come could not be told in time, which is known while the outcome is written."""

    async def scenario() -> None:
        bench = _WritingBench(_with(200, step("log"), step("note"), step("pay")))
        commit = bench.rows.commit

        async def slower(transaction: Transaction) -> Committed | Conflicted:
            await asyncio.sleep(0.02)
            return await commit(transaction)

        place = await bench.taken()
        async with bench.running("log", "note", "pay"):
            await bench.agents.until_called("log", "note")
            await asyncio.sleep(2 * _PATIENCE)
            bench.rows.error = TransientError("no store")
            place.release()
            await asyncio.sleep(1)
            bench.agents.let_go("note")
            await asyncio.sleep(28)
            bench.rows.error = None
            bench.rows.gate.clear()
            monkeypatch.setattr(bench.rows, "commit", slower)
            await asyncio.sleep(3)
            bench.rows.gate.set()
            await bench.agents.until_called("pay")
            assert not bench.is_free()

    in_virtual_time(scenario())


@pytest.mark.parametrize("is_unwritable", [False, True])
def test_place_for_what_would_follow_an_unrecorded_outcome_is_free(*, is_unwritable: bool) -> None:
    """An outage outlasts the step that has ended, and another of the task goes on for minutes.

    The outcome may have been one that can't be written, before what stands for it met the outage.
    """

    async def scenario() -> None:
        log, note, pay = _with(200, step("log"), step("note"), step("pay", "note")).steps
        bench = _WritingBench(workflow(log, replace(note, complete_within=20), pay))
        async with bench.running("log", "note"):
            await bench.agents.until_called("log", "note")
            (await bench.taken()).release()

            def is_refused(_: Transaction) -> bool:
                bench.rows.error, bench.rows.refuses = TransientError("no store"), lambda _: False
                return True

            if is_unwritable:
                bench.rows.refuses = is_refused
            else:
                bench.rows.error = TransientError("no store")
            bench.agents.let_go("note")
            await asyncio.sleep(60)
            bench.rows.error = None
            await asyncio.sleep(10)
            (await bench.taken()).release()

    in_virtual_time(scenario())


def _with(seconds: int, *steps: Step) -> Workflow:
    """Give a workflow whose steps have so much time."""
    return workflow(*(replace(each, complete_within=seconds) for each in steps))
