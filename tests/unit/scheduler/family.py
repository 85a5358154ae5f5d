"""A task and its children, with all that works on them, in memory; a host that dies at any call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from functions.messages.ends import Parents
from functions.pattern.announcements import announcements, starts_scheduler, wakes_scheduler
from functions.pattern.definition import Registry, Step, Workflow
from functions.pattern.identity import StepName, TaskId
from functions.pattern.records import Task, TaskRecord
from functions.pattern.states import AnnouncementKind, ProcessState, Remedy
from functions.pattern.store_ports import Stored
from functions.scheduler.progress import RunInput
from functions.scheduler.run_steps import RunSteps
from tests.fakes.agents import ScriptedAgent
from tests.fakes.ports import fake_ports
from tests.fakes.runners import limits
from tests.fakes.tasks import pending
from tests.fakes.workflows import TASK, nested, step, workflow
from tests.unit.supervisor.bench import Bench as Supervised

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
