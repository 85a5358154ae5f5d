"""Processes of the application over one simulated table, with services, a bus and Durable instances.

A process that crashed waits forever at its next request, so its work has no further effect.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count, cycle
from random import Random
from typing import Any

from pydantic import BaseModel

from functions.agents.agent_call import Call, LookUpAnswer
from functions.core.definition.step_definition import BaseStep, Results
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.derive import derive
from functions.core.plan import check_deployed, output_of
from functions.core.record import NOTICES, Message, MessageKind, RuleSettings, TaskRecord
from functions.core.rules import Applied, admit
from functions.core.task_events import Event, OutcomeKind
from functions.messaging.agent_messages import AgentReply, AgentRequest, Finding
from functions.messaging.announcer import Announcer
from functions.messaging.message_format import read_message
from functions.messaging.task_messages import ReleaseRequest, RunRequest, SchedulerMessage, WakeRequest
from functions.scheduler.receivers import Receivers
from functions.scheduler.run import Runs, scheduler
from functions.storage.gate_releases import GateReleases
from functions.storage.gates import Gates
from functions.storage.table_contract import TransientStorageError
from functions.storage.task_storage import TaskStorage
from functions.supervisor.task_sweep import TaskSweep
from tests.fakes.simulated_table import SimulatedTable
from tests.fakes.storage_process import ProcessTable, no_client, virtual_now

_IDS = count(1)


def new_id() -> str:
    """Return an id that no other process has; its first characters differ, too."""
    return f"{next(_IDS):08x}" * 4


class Parcel(BaseModel):
    """The payload."""

    items: list[int] = []


class Receipt(BaseModel):
    """The result of a step, and the body of an event."""

    number: int = 0


def request(_parcel: Parcel, _results: Results, item: int | None = None) -> dict[str, object]:
    """Return another request at each call: the recorded one must be sent."""
    return {"made": next(_IDS), "item": item}


def workflow(*steps: BaseStep[Any], name: str = "w", **options: Any) -> Workflow[Parcel]:
    """Return a workflow. A refused step is undone."""
    fields: dict[str, Any] = {"on_failure": "compensate", **options}
    return Workflow(name, payload=Parcel, steps=list(steps), **fields)


class NotedGates(Gates):
    """Gates with notes of the calls and replies that were counted."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.reports: list[tuple[str, OutcomeKind]] = []
        self.replies: list[tuple[str, datetime | None, bool]] = []

    async def report(self, name: str, kind: OutcomeKind, began_at: datetime) -> None:
        """Count the outcome of a call."""
        self.reports.append((name, kind))
        await super().report(name, kind, began_at)

    async def reply(self, name: str, sent_at: datetime | None, *, is_taken: bool) -> None:
        """Count a reply."""
        self.replies.append((name, sent_at, is_taken))
        await super().reply(name, sent_at, is_taken=is_taken)


class Services:
    """The remote services: their calls in order, and the behaviour that a test sets by Agent.

    A behaviour returns the result of a call, or raises. Each call takes `seconds`.
    """

    fences_starts = True

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.bodies: dict[str, set[str]] = defaultdict(set)
        self.behaviour: dict[str, Callable[[Call], Awaitable[str]]] = {}
        self.findings: dict[str, Finding] = {}
        self.found: list[Call] = []
        self.seconds, self.find_seconds = 0.5, 0.0
        self.under_way = self.most_under_way = 0

    def names(self) -> list[str]:
        """Return the steps that were called, in order."""
        return [call.step for call in self.calls]

    async def call(self, call: Call) -> str:
        """Carry out a call."""
        self.calls.append(call)
        self.bodies[call.effect_key].add(call.request)
        async with self._counted():
            behaviour = self.behaviour.get(call.step.partition(".")[0])
            return '{"number":7}' if behaviour is None else await behaviour(call)

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        """Count a call or a look-up that is under way, for at least `seconds`."""
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(self.seconds)
            yield
        finally:
            self.under_way -= 1

    async def find(self, call: Call) -> LookUpAnswer:
        """Look up a call: the finding of its step, by default unknown."""
        self.found.append(call)
        async with self._counted():
            await asyncio.sleep(self.find_seconds)
            return LookUpAnswer(self.findings.get(call.step, Finding.UNKNOWN), '{"number":8}')


@dataclass
class ProcessAgent:
    """The Agent of all services in one process. `carry_out` is a request of its process."""

    process: Process
    fences_starts: bool = True

    async def carry_out(self, call: Call) -> str:
        """Call the service. A call that was sent takes effect after a crash, too."""
        await self.process.cross()
        result = await self.process.world.services.call(call)
        await self.process.cross()
        return result

    async def find(self, call: Call) -> LookUpAnswer:
        """Look up a call."""
        await self.process.cross()
        return await self.process.world.services.find(call)


class Process:
    """One instance of the application. It crashes at request number `crash_at`.

    Its clock is `ahead` of the virtual time.
    """

    def __init__(self, world: World, *, ahead: timedelta = timedelta()) -> None:
        self.world = world
        self.requests = 0
        self.crash_at: int | None = None
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.announcer = Announcer(send=self._send, start_run=no_client)
        self.settings = replace(
            world.settings,
            make_output=lambda record: output_of(record, world.registry),
            check_deployed=lambda record: check_deployed(record, world.registry),
        )
        self.storage = TaskStorage(
            ProcessTable(world.table, self.cross),
            shards=world.shards,
            settings=self.settings,
            now=lambda: virtual_now() + ahead,
            new_id=new_id,
            announce=self.announcer.announce,
            random=Random(1),  # noqa: S311 - it spreads retries
        )
        self.gates = NotedGates(
            self.storage,
            settings=self.settings,
            now=virtual_now,
            schedule_release=self.announcer.request_release,
        )
        self.supervisor = TaskSweep(
            self.storage, gates=self.gates, registry=world.registry, send=self._send, now=virtual_now
        )
        agents = {spec.agent for flow in world.registry for spec in flow.specs}
        self.runs = Runs(
            storage=self.storage,
            registry=world.registry,
            agents=dict.fromkeys(agents, ProcessAgent(self)),
            gates=self.gates,
            send_request=self._send_request,
            now=virtual_now,
            new_id=new_id,
            run_seconds=world.run_seconds,
            steps_at_once=world.steps_at_once,
        )
        self.receivers = Receivers(
            storage=self.storage,
            registry=world.registry,
            announcer=self.announcer,
            gates=self.gates,
            releases=GateReleases(self.gates),
            settings=self.settings,
            now=virtual_now,
            start_run=self._start_run,
        )

    async def cross(self) -> None:
        """Count a request, and crash at the given one. A crashed process waits forever."""
        self.requests += 1
        if self.requests == self.crash_at and not self.died.done():
            self.died.set_result(None)
            self.world.processes = [Process(self.world) if it is self else it for it in self.world.processes]
        if self.died.done():
            await asyncio.get_running_loop().create_future()

    async def change(self, task: str, event: Event) -> Applied:
        """Record an event of a test."""
        return await self.storage.change(task, event, until=virtual_now() + timedelta(seconds=60))

    async def _send(self, message: SchedulerMessage) -> None:
        await self.cross()
        self.world.post(message)
        await self.cross()

    async def _send_request(self, agent: str, message: AgentRequest) -> None:
        await self.cross()
        await self.world.take_request(agent, message)
        await self.cross()

    async def _start_run(self, message: RunRequest) -> bool:
        await self.cross()
        self.world.start_instance(message)
        return True


class World:
    """All that processes share: `processes` take turns. A test may start further ones.

    `delivers_again`: the activity of a crashed process is delivered again, as Durable does. Otherwise it is
    lost, and a sweep recovers the task.
    """

    def __init__(
        self,
        *workflows: Workflow[Any],
        run_seconds: float = 240,
        steps_at_once: int = 16,
        settings: RuleSettings | None = None,
        table: SimulatedTable | None = None,
        shards: int = 1,
        number: int = 1,
    ) -> None:
        self.table, self.shards = table or SimulatedTable(seconds=0.01), shards
        self.registry = WorkflowRegistry(workflows)
        self.run_seconds, self.steps_at_once = run_seconds, steps_at_once
        self.settings = settings or RuleSettings()
        self.services = Services()
        self.messages: list[SchedulerMessage] = []
        self.requests: list[AgentRequest] = []
        self.take_request: Callable[[str, AgentRequest], Awaitable[None]] = self._take_request
        self.activities: list[tuple[str, str]] = []
        self.delivers = self.delivers_again = True
        self.replies_after: float | None = 1.0
        self.gap = 0.0
        self.errors: list[BaseException] = []
        self._instances = set[str]()
        self._background = set[asyncio.Future[Any]]()
        self.processes = [Process(self) for _ in range(number)]
        self.turns: Iterator[int] = cycle(range(number))

    @property
    def process(self) -> Process:
        """Return the process whose turn it is."""
        return self.processes[next(self.turns)]

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finish)
        return task

    def _finish(self, task: asyncio.Future[Any]) -> None:
        self._background.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.errors.append(error)

    async def admit(self, task: str, items: Sequence[int] = (), **fields: Any) -> TaskRecord:
        """Admit a task of the first workflow."""
        first = next(iter(self.registry))
        payload = Parcel(items=list(items)).model_dump_json()
        finders = frozenset({"finder", "queue:finder"})
        order = first.new_order(task, "r1", payload, virtual_now(), finders=finders, submitter="me", **fields)
        record = admit(order, virtual_now(), self.process.settings)
        return (await self.process.storage.admit(record))[0]

    async def record(self, task: str) -> TaskRecord:
        """Return the newest record of a task, read by a new process."""
        record = await Process(self).storage.load(task)
        assert record is not None
        return record

    async def on_live_process(
        self, work: Callable[[Process], Awaitable[Any]], *, is_repeated: bool = True
    ) -> Any:
        """Run work. If its process crashes, run work that `is_repeated` again on the next process."""
        while True:
            process = self.process
            task = asyncio.ensure_future(work(process))
            await asyncio.wait({task, process.died}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            self._background.add(task)  # it waits forever, or ends at a deadline
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            if not is_repeated:
                return None

    # The bus

    def post(self, message: SchedulerMessage) -> None:
        """Take a message, which is delivered from its time on."""
        self.messages.append(message)
        leaves = isinstance(message, Message) and message.kind in {*NOTICES, MessageKind.ALERT}
        if self.delivers and not leaves:
            self.spawn(self._deliver(message))

    async def _deliver(self, message: SchedulerMessage) -> Any:
        """Deliver a message from its time on, again if the table fails."""
        at = virtual_now()
        if isinstance(message, WakeRequest | ReleaseRequest):
            at = message.not_before if isinstance(message, WakeRequest) else message.at
        await asyncio.sleep(max(0.01, (at - virtual_now()).total_seconds()))
        while True:
            try:
                return await self.on_live_process(lambda process: process.receivers.receive(message))
            except TransientStorageError:
                await asyncio.sleep(1)

    async def _take_request(self, agent: str, message: AgentRequest) -> None:
        """Take a request, and reply after `replies_after` seconds."""
        assert agent
        self.requests.append(message)
        self.services.bodies[message.effect_key].add(str(message.request))
        if self.replies_after is not None:
            self.spawn(self.reply(message, after=self.replies_after))

    async def reply(self, message: AgentRequest, *, after: float = 0, **fields: Any) -> Applied:
        """Reply to a request after some seconds."""
        await asyncio.sleep(after)
        echoed = message.model_dump(mode="json", include=set(AgentReply.model_fields) - {"result"})
        body = json.dumps({**echoed, "outcome": "done", "result": {"number": 9}, **fields})
        reply = read_message(AgentReply, body.encode())
        applied = await self.on_live_process(lambda process: process.receivers.reply(reply))
        assert isinstance(applied, Applied)
        return applied

    # Durable instances, and the Supervisor

    def start_instance(self, message: RunRequest) -> None:
        """Start the instance of a run unless it is there."""
        if message.id not in self._instances:
            self._instances.add(message.id)
            self.spawn(self.orchestrate(message.id))

    async def orchestrate(self, instance: str) -> None:
        """Run the orchestrator of an instance."""
        instance_input = instance

        class Context:
            def get_input(self) -> str:
                return instance_input

            def call_activity(self, name: str, given: str) -> tuple[str, str]:
                return name, given

        generator = scheduler(Context())
        activity = next(generator)
        while True:
            assert activity == ("run_agents", instance)
            progress = await self.on_live_process(
                lambda process: process.runs.run_agents(instance), is_repeated=self.delivers_again
            )
            if progress is None:
                return
            self.activities.append((instance, progress))
            await asyncio.sleep(self.gap)
            try:
                activity = generator.send(progress)
            except StopIteration:
                return

    async def sweep(self) -> None:
        """Sweep once, in a process that does not crash."""
        await Process(self).supervisor.run()

    async def until_rest(self, task: str, *, seconds: float = 600) -> TaskRecord:
        """Sweep every five seconds until a task has ended."""
        for _ in range(int(seconds / 5)):
            await asyncio.sleep(5)
            record = await self.record(task)
            if record.finished_at is not None:
                return record
            await self.sweep()
        raise AssertionError(f"not ended: {derive(record)} {record.steps}")
