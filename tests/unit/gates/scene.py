"""Three hosts that share the table, with a service and an Agent behind a queue. Hosts take turns.

A host sees a gate as it was at most two seconds ago.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from functions.agents.agent_call import Call, NotBegunError
from functions.core.definition.step_definition import QueueStep, Step
from functions.core.derive import ProcessState, derive
from functions.core.gate_rules import Gate
from functions.core.record import Message, Order, RuleSettings, StepSpec, StepType, TaskRecord
from functions.core.rules import admit, fold
from functions.core.task_events import OutcomeKind, StepDeferred
from functions.messaging.agent_messages import AgentRequest
from functions.messaging.task_messages import ReleaseRequest, SchedulerMessage
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.storage_process import START, virtual_now
from tests.unit.scheduler.world import World, request, workflow

SERVICE, QUEUE = "card", "queue:card"
CALL = StepSpec(name="s", agent="card")
REQUEST = StepSpec(name="s", agent="card", type=StepType.QUEUE)
SETTINGS = RuleSettings(open_after=3)
_FLOWS = {
    StepType.ACTIVITY: workflow(Step("s", agent="card", request=request), name="call"),
    StepType.QUEUE: workflow(QueueStep("s", agent="card", request=request, complete_within=30), name="queue"),
}


def seconds() -> float:
    """Return the time of the running loop."""
    return asyncio.get_running_loop().time()


class Service:
    """A remote service that is down for some times, in seconds. Calls have an outcome `kind` then."""

    def __init__(self, *down: tuple[float, float], kind: OutcomeKind = OutcomeKind.UNKNOWN) -> None:
        self.down, self.kind = down, kind
        self.calls: list[tuple[float, str, bool]] = []

    async def call(self, call: Call) -> str:
        """Answer after 0.1 s."""
        began_at, is_down = seconds(), any(start <= seconds() < end for start, end in self.down)
        self.calls.append((began_at, call.task, not is_down))
        await asyncio.sleep(0.1)
        if is_down:
            raise NotBegunError("down") if self.kind is OutcomeKind.NOT_BEGUN else ConnectionError("down")
        return "{}"

    @property
    def served(self) -> list[str]:
        """Return the tasks of the calls that succeeded, in their order."""
        return [task for _, task, is_served in self.calls if is_served]


class QueueAgent:
    """An Agent behind a queue, which takes one request after the other, each in `pace` seconds.

    It is away for some times, and never replies to the tasks in `hanging`. With `expires_on_receive`, the
    broker drops requests only while the Agent receives.
    """

    def __init__(
        self, *away: tuple[float, float], pace: float = 0.01, expires_on_receive: bool = False
    ) -> None:
        self.away, self.pace, self.expires_on_receive = away, pace, expires_on_receive
        self.hanging: set[str] = set()
        self.waiting = deque[AgentRequest]()
        self.expired = 0
        self.taken: list[tuple[float, str]] = []

    async def receive(self, _agent: str, message: AgentRequest) -> None:
        """Take a request into the queue."""
        self.waiting.append(message)

    async def serve(self, scene: Scene) -> None:
        """Serve forever. The broker drops requests at their deadline."""
        while True:
            await asyncio.sleep(0.01)
            is_away = any(start <= seconds() < end for start, end in self.away)
            if is_away and self.expires_on_receive:
                await asyncio.sleep(30)
                continue
            left = [each for each in self.waiting if each.complete_by > virtual_now()]
            self.expired += len(self.waiting) - len(left)
            self.waiting = deque(left)
            if not left or is_away:
                continue
            message = self.waiting.popleft()
            if message.task_id in self.hanging:
                continue
            await asyncio.sleep(self.pace)
            self.taken.append((seconds(), message.task_id))
            scene.spawn(scene.reply(message))


class Scene(World):
    """The hosts, and the rest of the world. `loses` returns whether message `link` of a chain is lost."""

    def __init__(
        self,
        *,
        service: Service | None = None,
        agent: QueueAgent | None = None,
        settings: RuleSettings = SETTINGS,
    ) -> None:
        table = IndexedTable(seconds=0.005)
        super().__init__(*_FLOWS.values(), settings=settings, table=table, shards=3, number=3)
        self.service, self.agent = service or Service(), agent or QueueAgent()
        self.services.behaviour["s"], self.services.seconds = self.service.call, 0
        self.take_request = self.agent.receive
        self.loses: Callable[[int], bool] = lambda _link: False
        self.copies = 1
        self.links: list[int] = []
        if agent is not None:
            self.spawn(agent.serve(self))

    @property
    def sent(self) -> list[Message]:
        """Return the messages of outboxes that were sent."""
        return [message for message in self.messages if isinstance(message, Message)]

    def post(self, message: SchedulerMessage) -> None:
        """Take a message; that of a release chain may be lost, or delivered several times."""
        copies = 1
        if isinstance(message, ReleaseRequest):
            self.links.append(message.link)
            copies = 0 if self.loses(message.link) else self.copies
        for _ in range(copies):
            super().post(message)

    def order(self, task: str, spec: StepSpec, at: datetime, **fields: Any) -> Order:
        """Return the order of a task with one step."""
        made = _FLOWS[spec.type].new_order(task, "r1", "{}", at)
        return replace(made, specs=(spec,), **fields)

    async def admit_one(self, task: str, spec: StepSpec, **fields: Any) -> None:
        """Admit a task with one step."""
        order = self.order(task, spec, virtual_now(), **fields)
        await self.process.storage.admit(admit(order, virtual_now(), self.settings))

    async def admit_many(
        self, count: int, spec: StepSpec = CALL, *, within: float = 0, start: str = "t"
    ) -> None:
        """Admit tasks with one step, at regular times `within` seconds."""
        for number in range(count):
            await self.admit_one(f"{start}{number:04d}", spec)
            await asyncio.sleep(within / count)

    async def admit_deferred(self, count: int, spec: StepSpec = CALL) -> None:
        """Admit tasks whose step is deferred already, one each second of the past."""
        storage = self.process.storage

        async def one(number: int) -> None:
            at = START - timedelta(seconds=count - number)
            record = admit(self.order(f"t{number:04d}", spec, at), at, self.settings)
            event = StepDeferred(epoch=1, step="s")
            record = fold(record, event, None, at, self.settings).record
            await storage.admit(replace(record, outbox=()))

        await asyncio.gather(*map(one, range(count)))

    async def sweep(self) -> None:
        """Sweep once on the next host."""
        await self.process.supervisor.run()

    async def live(self, duration: float, *, sweep_every: float = 30) -> None:
        """Let time pass, with sweeps. Raises the errors of the hosts."""
        end = seconds() + duration
        while seconds() < end:
            await asyncio.sleep(min(sweep_every, end - seconds()))
            if seconds() < end:
                await self.sweep()
        if self.errors:
            raise self.errors[0]

    async def gate(self, name: str = SERVICE) -> Gate:
        """Return the gate as it is recorded."""
        gate, _ = await self.processes[0].gates.read(name)
        return gate

    def amounts(self, name: str = SERVICE) -> list[int]:
        """Return the numbers of steps of a gate's intervals, in their order."""
        gates = [each.row for changes in self.table.transactions for each in changes if each.key == name]
        recorded = [json.loads((row or {})["Gate"]) for row in gates]
        links = [(gate["link"], gate.get("amount", 0)) for gate in recorded if gate.get("amount")]
        return [amount for _, amount in sorted(dict(links).items())]

    async def failures(self) -> dict[str, int]:
        """Return the failures of each task that counts any. All tasks must be processed, and none undone."""
        records = await self.records()
        assert {derive(record).state for record in records} == {ProcessState.PROCESSED}
        assert all(record.epoch <= 1 + record.failures for record in records)
        return {record.order.task: record.failures for record in records if record.failures}

    async def records(self) -> list[TaskRecord]:
        """Return the records of all tasks."""
        keys = {key.partition("|")[0] for key in self.table.keys("t")}
        return [await self.record(task) for task in sorted(keys)]
