"""An application that can be deployed anew, with other definitions, over the same tasks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functions.pattern.agent_messages import done
from functions.pattern.completion import complete
from functions.pattern.definition import Registry, Workflow
from functions.pattern.epochs import FINAL
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
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
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import RecordedRequests, limits
from tests.fakes.store import MemoryStateStore
from tests.fakes.supervision import POLICY, MemoryOutbox, Queues, RecordedDamage, RecordedHeartbeats
from tests.fakes.task_index import MemoryTaskIndex
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
