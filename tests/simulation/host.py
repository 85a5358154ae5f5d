"""One instance of the application: the product's parts with their own clock, cache and view of the gates.

The work of a crashed host has no effect, since each access to the world passes `Host.cross`. A request that
was sent before the crash is carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from functions.agents.agent_call import Call, LookUpAnswer
from functions.api.orders import Orders
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.plan import check_deployed, output_of
from functions.core.record import RuleSettings, StepType
from functions.core.rules import Applied
from functions.core.task_events import Event
from functions.http.access import Caller, Role
from functions.messaging.agent_messages import AgentRequest
from functions.messaging.announcer import Announcer
from functions.messaging.message_format import Identity, QueueMessage, SubmissionMessage
from functions.messaging.rejected_messages import RejectedMessages
from functions.messaging.task_messages import RunRequest, SchedulerMessage
from functions.scheduler.receivers import Receivers
from functions.scheduler.run import Runs
from functions.storage.gate_releases import GateReleases
from functions.storage.gates import Gates
from functions.storage.table_contract import (
    RefusedChanges,
    Row,
    RowChange,
    RowPage,
    RowQuery,
    TransientStorageError,
)
from functions.submission.admission import Admission, AdmissionResult
from functions.supervisor.table_sweep import TableSweep
from functions.supervisor.task_sweep import TaskSweep
from tests.fakes.storage_process import no_client
from tests.simulation.drawn import FENCING, SLOW, DrawnTask
from tests.simulation.intake import RESERVED_FOR
from tests.simulation.table import RETENTION, SearchStorage

if TYPE_CHECKING:
    from tests.simulation.world import World

#: Time for which an event is tried, before its message is delivered again.
_TRY_TIME = timedelta(seconds=20)
_RECOVERIES = 3

SETTINGS = RuleSettings(
    start_within=timedelta(seconds=20),
    threshold=2,
    extended_waits=(timedelta(seconds=60), timedelta(seconds=300)),
    first_opening=timedelta(seconds=5),
    longest_deferral=timedelta(seconds=60),
    release_interval=timedelta(seconds=3),
    open_after=2,
    defer_for=timedelta(minutes=10),
)


class HostRegistry(WorkflowRegistry):
    """The workflows of one host; those in `missing` are not deployed on it."""

    def __init__(self, workflows: Sequence[Workflow[Any]], *, run_seconds: float) -> None:
        super().__init__(workflows, run_seconds=run_seconds)
        self.missing: set[str] = set()

    def find(self, name: str, version: int | None = None) -> Workflow[Any] | None:
        """Return a workflow unless it is missing."""
        return None if name in self.missing else super().find(name, version)


class HostTable:
    """The table as one host reaches it."""

    def __init__(self, host: Host) -> None:
        self._host, self._world = host, host.world

    async def send(self, partition: str, changes: Sequence[RowChange]) -> Sequence[str] | RefusedChanges:
        """Write all changes or none. The request may be lost or late, and so may its answer."""
        world = self._world
        await self._host.cross("write")
        self._check_throttled()
        if world.strikes("write not sent", 0.03):
            await asyncio.sleep(world.random.uniform(0.1, 3))
            raise TransientStorageError("not sent")
        if world.strikes("write late", 0.015):
            delay = world.random.uniform(0.1, 4)
            asyncio.get_running_loop().call_later(delay, world.table.write, partition, changes)
            raise TransientStorageError("no answer yet")
        answer = world.table.write(partition, changes)
        if world.strikes("write repeated", 0.01):
            answer = world.table.write(partition, changes)
        if world.strikes("write not acknowledged", 0.03):
            raise TransientStorageError("no answer")
        await self._host.cross("written", seconds=0)
        return answer

    async def read(self, partition: str, key: str) -> Row | None:
        """Return one row."""
        await self._read(key)
        return await self._world.table.read(partition, key)

    async def query(self, partition: str, query: RowQuery) -> RowPage:
        """Read one page."""
        await self._read(query.first)
        return await self._world.table.query(partition, query)

    async def _read(self, key: str) -> None:
        world = self._world
        await self._host.cross("read")
        self._check_throttled()
        if world.strikes("read hangs", 0.002):
            await asyncio.sleep(world.random.uniform(1, 30))
        if world.strikes("read fails", 0.02):
            raise TransientStorageError("no answer")
        world.table.requests[f"read {key}"] += 1

    def _check_throttled(self) -> None:
        world = self._world
        if world.is_throttled() and world.random.random() < 0.7:
            raise TransientStorageError("HTTP 503 ServerBusy")


@dataclass
class HostAgent:
    """The Agent of one service on one host."""

    host: Host
    name: str

    def __post_init__(self) -> None:
        self.fences_starts = self.name in FENCING

    async def carry_out(self, call: Call) -> str:
        """Call the service."""
        return await self.host.world.call_agent(self.host, self.name, call)

    async def find(self, call: Call) -> LookUpAnswer:
        """Look up a call."""
        await self.host.cross("find")
        return self.host.world.services.find(call, fences_starts=self.fences_starts)


def _caller(name: str) -> Caller:
    return Caller(name, frozenset({Role.SUBMITTER}))


class Host:
    """One instance of the application."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_alive = True
        self.death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.skew = timedelta(seconds=world.random.uniform(-0.9, 0.9) if world.is_faulty else 0)
        self.registry = HostRegistry(
            list(world.definitions.workflows.values()), run_seconds=world.run_seconds
        )
        self.settings = replace(
            SETTINGS,
            make_output=lambda record: output_of(record, self.registry),
            check_deployed=lambda record: check_deployed(record, self.registry),
        )
        start_run = self._start_run if world.random.random() < 0.5 else no_client
        announcer = Announcer(send=self.send, start_run=start_run)
        self.storage = SearchStorage(
            HostTable(self),
            shards=world.shards,
            settings=self.settings,
            now=self.now,
            new_id=world.new_id,
            announce=announcer.announce,
            random=Random(world.random.random()),
        )
        self.storage.folds, self.storage.registry = world.table.folds, self.registry
        self.gates = Gates(
            self.storage,
            settings=self.settings,
            now=self.now,
            schedule_release=announcer.request_release,
            calls_at_once=world.calls_at_once,
        )
        specs = (spec for workflow in self.registry for spec in workflow.specs)
        agents = sorted({spec.agent for spec in specs if spec.type is StepType.ACTIVITY})
        self.runs = Runs(
            storage=self.storage,
            registry=self.registry,
            agents={agent: HostAgent(self, agent) for agent in agents},
            gates=self.gates,
            send_request=self._send_request,
            now=self.now,
            new_id=world.new_id,
            run_seconds=world.run_seconds,
            steps_at_once=world.steps_at_once,
        )
        self.receivers = Receivers(
            storage=self.storage,
            registry=self.registry,
            announcer=announcer,
            gates=self.gates,
            releases=GateReleases(self.gates),
            settings=self.settings,
            now=self.now,
            start_run=self._start_run,
        )
        self.sweep = TaskSweep(
            self.storage,
            gates=self.gates,
            registry=self.registry,
            send=self.send,
            now=self.now,
            recoveries=_RECOVERIES,
        )
        window = world.random.choice([2, 50])
        self.table_sweep = TableSweep(
            self.storage, retention=RETENTION, reserved_for=RESERVED_FOR, now=self.now, window=window
        )
        self.orders = Orders(
            storage=self.storage,
            submit=self._submit,
            now=self.now,
            new_id=world.new_id,
            reply_queues={"replies"},
        )
        self._admission = Admission(
            storage=self.storage,
            registry=self.registry,
            rejected=RejectedMessages(world.rejected, self.now),
            announcer=announcer,
            put=self._put,
            settings=self.settings,
            now=self.now,
            new_id=world.new_id,
            reply_queues={"replies"},
            retention=RETENTION,
        )

    def now(self) -> datetime:
        """Return the time by this host's clock."""
        return self.world.now() + self.skew

    async def cross(self, kind: str, *, seconds: float | None = None) -> None:
        """Access the world; a host may crash on the way, and a crashed host waits forever."""
        await self.alive()
        if seconds is None:
            await asyncio.sleep(self.world.random.uniform(0.001, 0.05))
        if self.world.is_crash(kind):
            self.world.crash(self)
        await self.alive()

    async def alive(self) -> None:
        """Wait forever if the host has crashed."""
        if not self.is_alive:
            await asyncio.get_running_loop().create_future()

    # Callers and operators

    async def submit(self, task: str, drawn: DrawnTask, caller: str) -> Identity:
        """Submit an order as the API does. Raises `StorageError` while its workflow is missing."""
        order = self.drafted(task, drawn, caller)
        sent = {**order.payload, "reply_to": order.reply_to}
        await self.orders.submit_one(drawn.workflow, task, sent, _caller(caller))
        return order.identity

    def drafted(self, task: str, drawn: DrawnTask, caller: str) -> SubmissionMessage:
        """Return an order that is not submitted. Raises `StorageError` while its workflow is missing."""
        workflow = self.registry.find(drawn.workflow.name)
        if workflow is None:
            raise TransientStorageError("the workflow is missing")
        sent = {**drawn.payload.model_dump(), "reply_to": drawn.reply_to}
        return self.orders.draft(workflow, sent, _caller(caller), task=task).order

    async def take(self, message: QueueMessage) -> AdmissionResult:
        """Record an order of the queue."""
        await self.cross("intake")
        drawn = self.world.definitions.tasks.get(message.message_id.partition(".")[0])
        finders = frozenset[str]() if drawn is None else drawn.finders
        return await replace(self._admission, finders=finders).take(message)

    async def _submit(self, orders: Sequence[SubmissionMessage]) -> Sequence[BaseException | None]:
        await self.cross("submit")
        if self.world.strikes("order not sent", 0.05):
            return [ConnectionError("not sent")]
        self.world.intake.post(*orders)
        await self.cross("submitted", seconds=0)
        return [ConnectionError("no answer") if self.world.strikes("order not acknowledged", 0.05) else None]

    async def _put(self, _queue: str, message: QueueMessage, at: datetime) -> None:
        await self.cross("put back")
        self.world.intake.put(message, max(0.0, (at - self.world.now()).total_seconds()))

    async def record(self, task: str, event: Event) -> Applied:
        """Record an event of an operator."""
        return await self.storage.change(task, event, until=self.now() + _TRY_TIME)

    async def reply_of_another(self, gate: str, sent_at: datetime) -> None:
        """Count the reply to a request of another application at the gate of its queue."""
        await self.gates.refresh()
        await self.gates.reply(gate, sent_at, is_taken=True)

    # The bus

    async def send(self, message: SchedulerMessage) -> None:
        """Send a message; it may not be sent, or its acknowledgement may be lost."""
        world = self.world
        await self.cross("send")
        if world.strikes("message not sent", 0.05):
            if world.random.random() < 0.3:
                await asyncio.sleep(world.random.uniform(1, 20))
            raise ConnectionError("not sent")
        world.post(message)
        await self.cross("sent", seconds=0)
        if world.strikes("send not acknowledged", 0.05):
            raise ConnectionError("no acknowledgement")

    async def _send_request(self, agent: str, request: AgentRequest) -> None:
        world = self.world
        await self.cross("request")
        is_missing = agent == SLOW and asyncio.get_running_loop().time() < world.services.no_queue_until
        if is_missing or world.strikes("request not sent", 0.05):
            raise ConnectionError("not sent")
        world.request(agent, request)
        await self.cross("requested", seconds=0)

    async def _start_run(self, request: RunRequest) -> bool:
        await self.cross("start")
        if self.world.strikes("start not sent", 0.03):
            raise ConnectionError("not started")
        self.world.start_instance(request)
        return True
