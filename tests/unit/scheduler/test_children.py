"""A task as a step: begun once, awaited at no cost, undone with its parent, whenever a host dies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import AsyncMock

import pytest

from functions.messages.ends import Parents
from functions.pattern.announcements import announcements, starts_scheduler, wakes_scheduler
from functions.pattern.definition import Registry, Step, Workflow
from functions.pattern.errors import PermanentError, UnwritableError
from functions.pattern.events import Cancelled
from functions.pattern.identity import StepName, TaskId
from functions.pattern.records import Task, TaskRecord
from functions.pattern.states import AnnouncementKind, Direction, ProcessState, Remedy
from functions.pattern.store_ports import Stored
from functions.scheduler.progress import RunInput
from functions.scheduler.run_steps import RunSteps
from tests.fakes.agents import ScriptedAgent, raising
from tests.fakes.interventions import cancellation, resubmission, result_given
from tests.fakes.ports import fake_ports
from tests.fakes.runners import limits
from tests.fakes.tasks import FIRST, SECOND, pending
from tests.fakes.workflows import TASK, nested, step, workflow
from tests.unit.supervisor.conftest import Bench as Supervised

Run = tuple[TaskId, int, int | None]

CAR = StepName("car")
HOUR = 3_600


class Family:
    """A parent and what it begins. What is asked for runs when the test lets it."""

    def __init__(self, of: Workflow, *others: Workflow, weight: int = 3) -> None:
        self.supervised = Supervised(deployed=(of, *others))
        self.store, self.clock = self.supervised.store, self.supervised.clock
        self.agents = ScriptedAgent()
        self.requests: list[Run] = []
        self.ended: list[TaskId] = []
        self.woken: list[TaskId] = []
        self.calls = 0
        self.dies_at: int | None = None
        self._put = self.store.put
        self.store.put = self._announced  # type: ignore[method-assign]
        for name in ("admit", "load", "change"):
            setattr(self.store, name, self._mortal(getattr(self.store, name)))
        self.deploy(of, *others)
        self.parents = Parents(self.store, self.clock, timedelta(seconds=30))
        self.store.put(pending(of, weight=weight))
        self.requests.append((TASK, 1, None))

    def deploy(self, *workflows: Workflow) -> None:
        """Have these run from now on."""
        agents = {step.agent: self.agents for each in workflows for step in each.steps if step.agent}
        ports = fake_ports(store=self.store, clock=self.clock, scheduler_requests=self)
        self.runs = RunSteps(ports, agents, Registry(workflows, {}), limits())

    async def request(self, task: Task, _queued: Sequence[StepName]) -> None:
        """Ask for a Scheduler, as over the queue: a repeat is dropped."""
        run = (task.order_id, task.epoch, task.run)
        self._live()
        if run not in self.requests:
            self.requests.append(run)

    async def settle(self) -> None:
        """Let everything run that was asked for, and parents hear of ends."""
        while self.requests or self.ended or self.woken:
            if self.ended:
                await self.parents.tell(self.ended[0])
                self.ended.pop(0)
            elif self.woken:
                await self._run(self._holder(self.woken.pop(0)), number=2)
            else:
                await self._run(self.requests.pop(0))

    async def live_on(self, rounds: int = 12) -> None:
        """Let a new host start after each minute, until the parent has ended."""
        for _ in range(rounds):
            self.dies_at = None
            self.clock.advance(60)
            await self.supervised.sweep()
            await self.settle()

    @property
    def parent(self) -> TaskRecord:
        """Look at the parent."""
        return self.store.record(TASK)

    @property
    def states(self) -> dict[str, str]:
        """Look at the parent's steps."""
        return {each.name: each.state.value for each in self.parent.steps}

    def child(self, step: str = "car") -> TaskRecord:
        """Look at a child."""
        return self.store.record(self.parent.child(StepName(step)))

    @property
    def state(self) -> ProcessState:
        """Look at the parent's state."""
        return self.parent.task.process_state

    async def _run(self, run: Run, number: int = 1) -> None:
        given = RunInput(task=run[0], epoch=run[1], number=number, share=False)
        if run[2] is not None:
            given["run"] = run[2]
        await self.runs.run(given)

    def _holder(self, task: TaskId) -> Run:
        of = self.store.record(task).task
        return (task, of.epoch, of.run)

    def _announced(self, record: TaskRecord) -> Stored:
        known = self.store._tasks.get(record.order.task)
        stored = self._put(record)
        before = None if known is None else known.record
        kinds = {each.kind for each in announcements(before, record)}
        if AnnouncementKind.ENDED in kinds:
            self.ended.append(record.order.task)
        if before is not None and starts_scheduler(before, record):
            self.requests.append((record.order.task, record.task.epoch, record.task.run))
        if before is not None and wakes_scheduler(before, record):
            self.woken.append(record.order.task)
        return stored

    def _mortal(self, method: Any) -> Any:
        async def call(*given: Any, **options: Any) -> Any:
            self._live()
            return await method(*given, **options)

        return call

    def _live(self) -> None:
        self.calls += 1
        if self.dies_at is not None and self.calls >= self.dies_at:
            self.requests.clear()  # what was about to be sent; ends are on record in the outbox
            raise RuntimeError("killed")


def rental(remedy: Remedy = Remedy.COMPENSATE, *, version: int = 1) -> Workflow:
    """Rent a car, and insure it."""
    flow = workflow(
        step("rent", undo=True), step("insure", "rent"), name="rental", resource="rentals", remedy=remedy
    )
    return replace(
        flow, version=version, answer=lambda _parcel, results: {"rented": results[StepName("rent")]["done"]}
    )


def trip(*more: Step, **child: Any) -> Workflow:
    """Fly, rent by the other workflow, and pay."""
    steps = (step("fly", undo=True), nested("car", "fly", of="rental", **child), step("pay", "car"), *more)
    return workflow(*steps, remedy=Remedy.COMPENSATE, cancel_within=HOUR)


def family_of(*more: Step, remedy: Remedy = Remedy.COMPENSATE, **child: Any) -> Family:
    """Begin a trip."""
    return Family(trip(*more, **child), rental(remedy))


async def test_child_is_processed_and_its_parent_goes_on() -> None:
    """In one epoch and two runs; the child belongs to the same caller."""
    family = family_of()
    await family.settle()
    assert family.agents.steps == ["fly", "rent", "insure", "pay"]
    assert (family.state, family.parent.task.epoch, family.parent.task.run) == (
        ProcessState.PROCESSED,
        FIRST,
        1,
    )
    order, parent = family.child().order, family.parent.order
    assert (order.workflow, order.submitter, order.correlation_id) == ("rental", "tester", "c-1")
    assert order.parent is not None
    assert (order.parent.task, order.parent.birth, order.parent.step) == (TASK, parent.birth, "car")
    assert family.parent.step(CAR).result == b"{}"
    # Answer is the result.
    family = family_of()
    family.store.complete = lambda record: (
        replace(record, task=replace(record.task, answer=b'{"rented":true}'))
        if record.order.parent
        else record
    )
    await family.settle()
    assert family.parent.step(CAR).result == b'{"rented":true}'


async def test_parent_waits_for_an_operator_of_its_child() -> None:
    """Uncounted; then it goes on as if nothing had been."""
    family = family_of(remedy=Remedy.HOLD)
    family.agents.behaviours["insure"] = raising(PermanentError("no"))
    await family.settle()
    assert family.child().task.process_state is ProcessState.ERROR
    family.clock.advance(HOUR - 60)
    assert (await family.supervised.sweep()).found == 0
    del family.agents.behaviours["insure"]
    await family.store.change(family.child().order.task, replace(resubmission(), start_by=family.clock.now()))
    await family.settle()
    assert (family.state, family.parent.task.failure_count) == (ProcessState.PROCESSED, 0)


async def test_child_that_is_stuck_for_too_long_is_undone_with_its_parent() -> None:
    """Its time is the parent's to say."""
    family = family_of(remedy=Remedy.HOLD)
    family.agents.behaviours["insure"] = raising(PermanentError("no"))
    await family.settle()
    family.clock.advance(HOUR + 10)
    report = await family.supervised.sweep()
    assert (report.waited, report.recovered) == (1, 0)
    await family.settle()
    assert (family.state, family.child().task.process_state) == (ProcessState.COMPENSATED,) * 2
    assert family.agents.steps[-2:] == ["rent undo", "fly undo"]


async def test_processed_child_is_undone_with_its_parent() -> None:
    """As an operator may cancel what is processed, whatever its own workflow allows its callers."""
    family = family_of()
    await family.settle()
    await family.store.change(TASK, cancellation())
    await family.settle()
    assert family.agents.steps[-2:] == ["rent undo", "fly undo"]
    assert family.child().history[-1].who == "scheduler"
    assert family.child().task.last_error == "the task of which it is a step is undone"
    assert family.state is ProcessState.COMPENSATED


async def test_child_that_is_not_admitted_yet_never_will_be() -> None:
    """Its place is taken by one that is undone: the run that is late finds it."""
    family = family_of()
    admit, late = family.store.admit, list[TaskRecord]()

    async def keep(record: TaskRecord) -> Any:
        late.append(record)
        raise RuntimeError("it takes its time")

    family.store.admit = keep  # type: ignore[method-assign]
    await family.settle()
    family.store.admit = admit  # type: ignore[method-assign]
    assert family.states == {"fly": "Completed", "car": "Running", "pay": "NotStarted"}
    await family.store.change(TASK, cancellation())
    await family.settle()
    assert family.state is ProcessState.COMPENSATED
    [child] = late
    assert (await family.store.admit(child)).stored.record.task.process_state is ProcessState.COMPENSATED
    assert "rent" not in family.agents.steps


async def test_child_that_was_processed_and_is_gone_is_an_operator_s() -> None:
    """What it did stands, and nobody knows any more what to undo."""
    family = family_of()
    await family.settle()
    family.store.remove(family.child().order.task)
    await family.store.change(TASK, cancellation())
    await family.settle()
    assert family.state is ProcessState.ERROR
    assert "was processed, and is gone" in (family.parent.task.last_error or "")


async def test_request_that_the_child_does_not_take_holds_the_parent() -> None:
    """It is a defect of the definition: no other try mends it, and nothing was begun."""
    of = replace(trip(), steps=(replace(nested("car", of="rental"), request=lambda *_: {"wait": 1}),))
    family = Family(of, rental())
    await family.settle()
    assert family.state is ProcessState.ERROR
    expected = "car: 'rental' does not take its request: weight: Field required"
    assert family.parent.task.last_error == expected
    assert len(family.store) == 1
    # Child of many items is refused as an order would be.
    of = workflow(nested("car", of="rental"), remedy=Remedy.HOLD)
    many = workflow(
        replace(step("rent"), request=lambda *_: {}, for_each=lambda _: list(range(100))),
        name="rental",
        resource="rentals",
    )
    family = Family(of, many)
    await family.settle()
    assert "'rental' does not take its request: It has too many items" in (
        family.parent.task.last_error or ""
    )


async def test_child_whose_rows_can_t_be_written_holds_the_parent() -> None:
    """The state store would refuse them again."""
    family = family_of()

    async def refuse(record: TaskRecord) -> Any:
        raise UnwritableError(record.order.task, "PropertyValueTooLarge")

    family.store.admit = refuse  # type: ignore[method-assign]
    await family.settle()
    assert family.state is ProcessState.ERROR
    assert "can't be written: PropertyValueTooLarge" in (family.parent.task.last_error or "")


@pytest.mark.parametrize("on_failure", [None, Remedy.CONTINUE])
async def test_child_of_which_an_operator_has_given_the_result_need_not_be_there_to_be_undone(
    on_failure: Remedy | None,
) -> None:
    """It could not be begun; a step that may fail waits for its definition as if it had not started."""
    family = family_of(on_failure=on_failure)
    admit = family.store.admit

    async def refuse(record: TaskRecord) -> Any:
        raise UnwritableError(record.order.task, "PropertyValueTooLarge")

    family.store.admit = refuse  # type: ignore[method-assign]
    await family.settle()
    assert family.states["car"] == ("NotStarted" if on_failure else "Failed")
    family.store.admit = admit  # type: ignore[method-assign]
    await family.store.change(TASK, replace(result_given("car"), start_by=family.clock.now()))
    await family.settle()
    assert (family.state, family.states["car"]) == (ProcessState.PROCESSED, "Completed")
    await family.store.change(TASK, cancellation(by_operator=on_failure is None))
    await family.settle()
    assert (family.state, family.child().task.process_state) == (ProcessState.COMPENSATED,) * 2


async def test_parent_is_parked_where_the_child_s_workflow_is_not_deployed() -> None:
    """Also when the child's step has begun; it goes on uncounted when it is."""
    family = family_of()
    family.dies_at = 4  # the child's admission
    await family.settle()
    assert family.states["car"] == "Running"
    family.dies_at = None
    family.deploy(replace(workflow(step("walk")), version=2))
    await family._run((TASK, 1, None))
    assert family.parent.task.is_parked
    family.deploy(trip(), rental())
    await family.live_on(2)
    assert (family.state, family.parent.task.failure_count) == (ProcessState.PROCESSED, 0)


async def test_each_item_has_a_child_of_its_own() -> None:
    """The results come in their order; so many run at once as the step says."""
    each = replace(
        nested("car", of="rental"),
        request=lambda _parcel, _results, item: {"weight": item},
        for_each=lambda parcel: list(range(1, parcel.weight + 1)),
        at_once=2,
    )
    family = Family(workflow(each, step("pay", "car"), remedy=Remedy.COMPENSATE), rental())
    await family.settle()
    assert family.state is ProcessState.PROCESSED
    assert [family.child(f"car.{item}").order.payload for item in range(3)] == [
        b'{"weight":1}',
        b'{"weight":2}',
        b'{"weight":3}',
    ]
    assert family.agents.calls[-1].request["after"] == ["car"]
    # Child takes the newest version.
    family = Family(trip(), rental(), rental(version=2))
    await family.settle()
    assert (family.child().order.workflow_version, family.state) == (2, ProcessState.PROCESSED)


async def test_refused_child_of_an_item_undoes_the_processed_ones_with_the_parent() -> None:
    """The error names the item; the children are undone before the step that they need."""
    rented = replace(
        nested("car", "fly", of="rental"),
        request=lambda _parcel, _results, item: {"weight": item},
        for_each=lambda parcel: list(range(1, parcel.weight + 1)),
    )
    trips = workflow(step("fly", undo=True), rented, remedy=Remedy.COMPENSATE)
    family = Family(trips, rental(), weight=2)

    def insure() -> Any:
        if family.agents.steps.count("insure") > 1:
            raise PermanentError("no")
        return {"done": True}

    family.agents.behaviours["insure"] = insure
    await family.settle()
    assert (family.state, family.parent.task.last_error) == (ProcessState.COMPENSATED, "car.1: insure: no")
    children = [family.child(f"car.{item}").task.process_state for item in range(2)]
    assert children == [ProcessState.COMPENSATED] * 2
    assert family.agents.steps[-3:] == ["rent undo", "rent undo", "fly undo"]


async def test_short_wait_for_a_child_is_sat_out() -> None:
    """Its parent's Scheduler is woken when it ends, also when it is undone; nobody has to look."""
    family = family_of(complete_within=30)
    await family.settle()
    assert (family.state, family.parent.task.run) == (ProcessState.PROCESSED, None)
    await family.store.change(TASK, cancellation())
    await family.settle()
    assert (family.state, family.parent.task.run) == (ProcessState.COMPENSATED, None)
    # The wait ends while another step runs.
    family = family_of(step("slow", complete_within=100))
    family.agents.slow("slow")
    running = asyncio.create_task(family.settle())
    await family.agents.until_called("slow")
    family.agents.let_go("slow")
    await running
    assert family.state is ProcessState.PROCESSED


async def test_operator_has_an_undo_go_on_whose_time_was_over() -> None:
    """Its next try has a time of its own, and asks the child anew."""
    family = family_of()
    await family.settle()
    family.agents.behaviours["rent"] = raising(PermanentError("no"))
    await family.store.change(TASK, cancellation())
    await family.settle()
    family.clock.advance(HOUR + 10)
    await family.supervised.sweep()
    assert "is not undone by" in (family.parent.task.last_error or "")
    del family.agents.behaviours["rent"]
    await family.store.change(TASK, replace(resubmission(SECOND), start_by=family.clock.now()))
    await family.settle()
    assert (family.state, family.child().task.process_state) == (ProcessState.COMPENSATED,) * 2


@pytest.mark.parametrize("ends", ["processed", "undone", "cancelled"])
async def test_host_may_die_at_any_call(ends: str) -> None:
    """What was begun ends, once; a child is begun once, and undone with its parent."""
    for dies_at in range(1, 200):
        family = family_of()
        if ends == "undone":
            family.agents.behaviours["insure"] = raising(PermanentError("no"))
        family.dies_at = dies_at
        with suppress(RuntimeError):
            await family.settle()
            if ends == "cancelled":
                await family.store.change(TASK, cancellation())
                await family.settle()
        if family.calls < dies_at:
            break
        await family.live_on()
        if ends == "cancelled":
            event = Cancelled(who="carla", reason="", by_operator=True, start_by=family.clock.now())
            with suppress(RuntimeError):
                await family.store.change(TASK, event)
            await family.live_on()
        expected = ProcessState.PROCESSED if ends == "processed" else ProcessState.COMPENSATED
        assert (dies_at, family.state, family.child().task.process_state) == (dies_at, expected, expected)
        effects = {call.effect_key for call in family.agents.calls}
        undone = {key.split("/")[1] for key in effects if key.endswith("/undo")}
        assert undone == (set() if ends == "processed" else {"fly", "rent"})
        assert len({key for key in effects if "/rent/do" in key}) == 1
    else:
        pytest.fail("it never came to its end")
    assert dies_at > 10
    assert (family.parent.task.direction is Direction.UNDO) == (ends != "processed")
    if ends == "undone":
        assert family.agents.steps == ["fly", "rent", "insure", "rent undo", "fly undo"]
        assert family.parent.task.last_error == "car: insure: no"


@pytest.mark.parametrize("complete_within", [HOUR, 30])
@pytest.mark.parametrize("is_undo", [False, True])
async def test_child_that_ended_in_time_counts_though_its_parent_hears_of_it_late(
    complete_within: float,
    is_undo: bool,  # noqa: FBT001 - a case
) -> None:
    """The application was stopped, or the message was lost: nothing that was processed is undone for that."""
    family = family_of(complete_within=complete_within)
    if is_undo:
        await family.settle()
        await family.store.change(TASK, cancellation())
    tell, family.parents.tell = family.parents.tell, AsyncMock()  # type: ignore[method-assign]
    await family.settle()
    family.parents.tell = tell  # type: ignore[method-assign]
    assert family.state is not ProcessState.PROCESSED
    family.clock.advance(complete_within + 10)
    if complete_within == HOUR:
        await family.supervised.sweep()
    else:  # its Scheduler sat it out
        await family._run((TASK, family.parent.task.epoch, None), number=2)
    await family.settle()
    expected = ProcessState.COMPENSATED if is_undo else ProcessState.PROCESSED
    assert (family.state, family.child().task.process_state) == (expected, expected)
    assert family.parent.task.failure_count == 0


async def test_child_that_can_t_be_read_does_not_keep_its_parent() -> None:
    """Its time is over all the same."""
    family = family_of(remedy=Remedy.HOLD)
    family.agents.behaviours["insure"] = raising(PermanentError("no"))
    await family.settle()
    family.store.damaged.add(family.child().order.task)
    family.clock.advance(HOUR + 10)
    await family.supervised.sweep()
    assert family.states["car"] == "Failed"


async def test_child_that_ended_in_time_counts_beside_a_step_that_ends_after_its_time() -> None:
    """Its message waits on the queue, and what the step's outcome leads to looks at the child first."""
    family = family_of(step("pack", "fly", complete_within=100), complete_within=30)
    family.agents.slow("pack")
    parent = asyncio.create_task(family._run(family.requests.pop(0)))
    await family.agents.until_called("pack")
    tell, family.parents.tell = family.parents.tell, AsyncMock()  # type: ignore[method-assign]
    await family.settle()
    family.parents.tell = tell  # type: ignore[method-assign]
    assert family.child().task.process_state is ProcessState.PROCESSED
    family.clock.advance(31)
    family.agents.let_go("pack")
    await parent
    assert family.states["car"] == "Completed"
    await family.settle()
    assert family.state is ProcessState.PROCESSED
