"""300 tasks in flight survive a restart with another definition."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from typing import Any

import pytest

from functions.pattern.agent_messages import done
from functions.pattern.completion import complete
from functions.pattern.definition import Registry, Workflow
from functions.pattern.epochs import FINAL
from functions.pattern.events import Event
from functions.pattern.identity import TaskId
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, ProcessState
from functions.scheduler.progress import RunInput
from functions.scheduler.run_steps import RunSteps
from functions.scheduler.takers import ReplyTaker
from functions.supervisor.crowds import CrowdControl
from functions.supervisor.damage import Damage
from functions.supervisor.parts import SupervisorParts
from functions.supervisor.silence import Silence
from tests.fakes.agents import ScriptedAgent
from tests.fakes.breaker_rows import MemoryBreakerRows
from tests.fakes.clock import FakeClock
from tests.fakes.crowds import RecordedCrowds
from tests.fakes.interventions import recovered
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.redeployments import CHANGES, SHOP
from tests.fakes.runners import RecordedRequests, limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.supervision import POLICY, MemoryOutbox, Queues, RecordedDamage, RecordedHeartbeats
from tests.fakes.task_index import MemoryTaskIndex
from tests.fakes.tasks import SECOND, claimed, completed, failed, pending, started, told
from tests.fakes.times import RecordedRefusals, RecordedSilences

#: Longer than any step's limit, any Scheduler's start, and any wait of the Supervisor.
_ROUND_SECONDS = 120
_MOST_ROUNDS = 30


class Deployment:
    """Scheduler, Supervisor and Agents of the newest deployment; Agents do whatever they are asked."""

    def __init__(self, records: Sequence[TaskRecord]) -> None:
        self.clock = FakeClock()
        self.store = MemoryStateStore(self.clock)
        self.agents = ScriptedAgent()
        self._requests = RecordedRequests()
        self._ports = fake_ports(
            clock=self.clock,
            store=self.store,
            index=MemoryTaskIndex(self.store),
            outbox=MemoryOutbox(),
            announcements=Queues(),
            breakers=MemoryBreakerRows(),
            heartbeats=RecordedHeartbeats(),
            agent_messages=self._requests,
            rejected=RecordedRejections(),
            new_id=lambda: uuid.uuid4().hex,
        )
        for record in records:
            self.store.put(record)

    def deploy(self, *workflows: Workflow) -> None:
        """Start it anew with these definitions: nothing of the process before is left."""
        registry = Registry(workflows, {})
        agents = {step.agent: self.agents for of in workflows for step in of.steps}
        self.store.complete = partial(complete, registry)
        self._runs = RunSteps(self._ports, agents, registry, limits())
        self._replies = ReplyTaker(self._ports, limits(), RecordedRefusals().alert)
        damage = Damage(self._ports, RecordedDamage().alert)
        silence = Silence(self._ports, RecordedSilences().alert)
        crowds = CrowdControl(self._ports, POLICY, RecordedCrowds().alert)
        self._supervisor = SupervisorParts.of(
            self._ports, POLICY, registry, "supervisor", damage, silence=silence, crowds=crowds
        ).sweep
        self._requests.sent.clear()

    def those(self, chosen: Callable[[TaskRecord], bool]) -> list[TaskRecord]:
        """Give some of the records."""
        return [record for record in self.store.records() if chosen(record)]

    async def sweep(self) -> Any:
        """Let time pass, and the Supervisor look."""
        self.clock.advance(_ROUND_SECONDS)
        return await self._supervisor.run()

    async def until_at_rest(self) -> None:
        """Do what messages, Schedulers and Supervisor do, until every task has ended or is parked."""
        for _ in range(_MOST_ROUNDS):
            moving = self.those(_is_moving)
            if not moving:
                return
            for record in moving:
                if record.task.process_state is ProcessState.PENDING:
                    await self._run(record)
            await self.sweep()
        raise AssertionError(f"still moving: {[record.task for record in self.those(_is_moving)][:3]}")

    async def _run(self, record: TaskRecord) -> None:
        """Run the Scheduler's activity, and again after each reply."""
        task, epoch = record.order.task, record.task.epoch
        for number in range(1, _MOST_ROUNDS):
            await self._runs.run(RunInput(task=task, epoch=epoch, number=number, share=False))
            if not self._requests.sent:
                return
            _, request = self._requests.sent.pop()
            reply = done(request, {}).model_dump_json().encode()
            await self._replies.take("m-1", reply, RecordedSchedulers())


def _is_moving(record: TaskRecord) -> bool:
    return record.task.process_state not in FINAL and not record.task.is_parked


_TASKS = 300
_TOKEN = "t" * 16


def _until_here(task: TaskId) -> list[TaskRecord]:
    """Give a task at each point of its way: before, under and after each step, doing and undoing."""

    def begin(name: str) -> Event:
        return started(name, task=task, token=_TOKEN if name == "payment" else None)

    def end(name: str) -> Event:
        return completed(name, task=task, token=_TOKEN if name == "payment" else None)

    events = [
        claimed(task=task),
        begin("pick"),
        end("pick"),
        begin("payment"),
        begin("label"),
        end("label"),
        end("payment"),
        begin("send"),
    ]
    record = pending(SHOP, task)
    records = [record]
    for event in events:
        record = told(record, event)
        records.append(record)
    turned = told(record, failed("send", task=task))
    undoing = told(turned, claimed(SECOND, task=task), started("send", SECOND, task=task))
    return [*records, recovered(records[4]), turned, undoing]


def _in_flight() -> list[TaskRecord]:
    points = len(_until_here(TaskId("any")))
    return [
        _until_here(TaskId(f"task-{number}"))[point]
        for number, point in enumerate(islice(cycle(range(points)), _TASKS))
    ]


def _was_turned(record: TaskRecord) -> bool:
    return record.task.direction is Direction.UNDO


async def _restarted(*deployed: Workflow) -> tuple[Deployment, set[TaskId]]:
    """Restart with these definitions, and let everything come to rest; name what was being undone before."""
    application = Deployment(_in_flight())
    turned = {record.order.task for record in application.those(_was_turned)}
    application.deploy(*deployed)
    await application.until_at_rest()
    return application, turned


def _check(application: Deployment, turned: set[TaskId], *, parks: bool) -> None:
    """Nothing is undone that was not before, nothing is in `Error`, and all is done that is not parked."""
    assert {record.order.task for record in application.those(_was_turned)} == turned
    parked = application.those(lambda record: record.task.is_parked)
    assert bool(parked) is parks
    for record in application.those(lambda record: not record.task.is_parked):
        is_turned = record.order.task in turned
        end = ProcessState.COMPENSATED if is_turned else ProcessState.PROCESSED
        assert record.task.process_state is end
        assert (record.task.answer is None) is is_turned


async def _check_waiting(application: Deployment) -> None:
    """Let a month pass: it costs the parked tasks no write, no count, no epoch."""
    before = application.store.records()
    writes = application.store.writes
    for _ in range(3):
        application.clock.advance(10 * 86_400)
        await application.sweep()
    assert application.store.records() == before
    assert application.store.writes == writes


async def _check_going_on(application: Deployment, turned: set[TaskId], *deployed: Workflow) -> None:
    """Within a sweep of the right deployment all go on, uncounted, to the end that they would have had."""
    parked = application.those(lambda record: record.task.is_parked)
    counts = {record.order.task: record.task.failure_count for record in parked}
    application.deploy(*deployed)
    assert (await application.sweep()).released == len(parked)
    for task, count in counts.items():
        assert application.store.record(task).task.failure_count == count
    await application.until_at_rest()
    _check(application, turned, parks=False)


@pytest.mark.parametrize("change", CHANGES)
async def test_change_without_a_new_version_undoes_nothing(change: str) -> None:
    """Of what it lacks it is told by name; a step more is none of the old tasks' business."""
    application, turned = await _restarted(CHANGES[change])
    _check(application, turned, parks=change != "step inserted")
    await _check_waiting(application)
    await _check_going_on(application, turned, SHOP)


@pytest.mark.parametrize("change", CHANGES)
async def test_change_with_a_new_version_beside_the_old_one_parks_nothing(change: str) -> None:
    """The way that docs/changing-a-workflow.md recommends."""
    application, turned = await _restarted(replace(CHANGES[change], version=2), SHOP)
    _check(application, turned, parks=False)


@pytest.mark.parametrize("change", [*CHANGES, "workflow removed"])
async def test_version_that_was_dropped_too_early_parks_what_needs_it(change: str) -> None:
    """All that still had something to do, and nothing of it is lost."""
    deployed = [replace(of, version=2) for name, of in CHANGES.items() if name == change]
    application, turned = await _restarted(*deployed)
    _check(application, turned, parks=True)
    reasons = {record.task.last_error for record in application.those(lambda record: record.task.is_parked)}
    assert reasons == {"version 1 of 'shop' is not deployed here"}
    await _check_waiting(application)
    await _check_going_on(application, turned, *deployed, SHOP)
