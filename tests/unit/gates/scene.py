"""Three hosts that share the table: gates, runs, Supervisors, services and Agents behind queues.

A host sees a gate as it was at most two seconds ago. Messages are received by each host in turn.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import cycle
from typing import Any

from functions.agents.gate_releases import ReleasingGates
from functions.core.derive import ready_steps
from functions.core.gate_rules import Gate
from functions.core.record import (
    Direction,
    Message,
    OperationState,
    RuleSettings,
    StepSpec,
    StepType,
    TaskRecord,
)
from functions.core.rules import admit, fold
from functions.core.task_events import Event, OutcomeKind, RunStarted, StepDeferred, StepEnded, StepStarted
from functions.core.workflow_definition import WorkflowRegistry
from functions.storage.table_contract import StorageError
from functions.storage.task_inbox import Transition
from functions.supervisor.task_sweep import TaskSweep
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.storage_process import START, StorageProcess, new_id, order, virtual_now

SERVICE, QUEUE = "card", "queue:card"
CALL = StepSpec(name="s", agent="card")
REQUEST = StepSpec(name="s", agent="card", type=StepType.QUEUE)
SETTINGS = RuleSettings(open_after=3)


def seconds() -> float:
    """Return the time of the running loop."""
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class Request:
    """A request in the queue of an Agent."""

    record: TaskRecord
    start_id: str
    sent_at: datetime
    complete_by: datetime

    @property
    def task(self) -> str:
        """Return the id of its task."""
        return self.record.order.task


class Service:
    """A remote service that is down for some times, in seconds. Calls have an outcome `kind` then."""

    def __init__(self, *down: tuple[float, float], kind: OutcomeKind = OutcomeKind.UNKNOWN) -> None:
        self.down, self.kind = down, kind
        self.calls: list[tuple[float, str, bool]] = []

    async def call(self, task: str) -> OutcomeKind:
        """Answer after 0.1 s."""
        began_at, is_down = seconds(), any(start <= seconds() < end for start, end in self.down)
        self.calls.append((began_at, task, not is_down))
        await asyncio.sleep(0.1)
        return self.kind if is_down else OutcomeKind.DONE

    @property
    def served(self) -> list[str]:
        """Return the tasks of the calls that succeeded, in their order."""
        return [task for _, task, is_served in self.calls if is_served]


class QueueAgent:
    """An Agent behind a queue, which takes one request after the other, each in `pace` seconds.

    It is away for some times, and never replies to the tasks in `hanging`. It replies `not_taken` to
    requests whose age exceeds `longest_wait` seconds. With `expires_on_receive`, the broker drops requests
    only while the Agent receives.
    """

    def __init__(
        self, *away: tuple[float, float], pace: float = 0.01, expires_on_receive: bool = False
    ) -> None:
        self.away, self.pace, self.expires_on_receive = away, pace, expires_on_receive
        self.hanging: set[str] = set()
        self.longest_wait = 1e9
        self.waiting = deque[Request]()
        self.expired = 0
        self.taken: list[tuple[float, str]] = []
        self.not_taken: list[str] = []

    async def serve(self, reply: Callable[[Request, OutcomeKind], Coroutine[Any, Any, None]]) -> None:
        """Serve forever. The broker drops requests at their deadline."""
        while True:
            await asyncio.sleep(0.01)
            is_away = any(start <= seconds() < end for start, end in self.away)
            if is_away and self.expires_on_receive:
                await asyncio.sleep(30)
                continue
            left = [request for request in self.waiting if request.complete_by > virtual_now()]
            self.expired += len(self.waiting) - len(left)
            self.waiting = deque(left)
            if not left or is_away:
                continue
            request = self.waiting.popleft()
            if request.task in self.hanging:
                continue
            if (virtual_now() - request.sent_at).total_seconds() > self.longest_wait:
                self.not_taken.append(request.task)
                await reply(request, OutcomeKind.NOT_BEGUN)
                continue
            await asyncio.sleep(self.pace)
            self.taken.append((seconds(), request.task))
            await reply(request, OutcomeKind.DONE)


class Host(StorageProcess):
    """One instance of the application."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.table, shards=scene.shards, settings=scene.settings)
        self.scene = scene
        self.gates = ReleasingGates(
            self.storage, settings=scene.settings, now=virtual_now, schedule_release=scene.schedule_release
        )
        self.supervisor = TaskSweep(
            self.storage, gates=self.gates, registry=WorkflowRegistry([]), send=scene.send, now=virtual_now
        )

    async def _announce(self, transition: Transition) -> Sequence[Message]:
        before, after = transition.before, transition.after
        is_run = before is None or (before.epoch, before.run) != (after.epoch, after.run)
        if is_run and ready_steps(after) and not self.scene.loses_runs:
            self.scene.spawn(next(self.scene.turns).run(after.order.task, after.epoch, after.run))
        return ()

    async def run(self, task: str, epoch: int, run: int) -> None:
        """Carry out one run; a run that fails is recovered by the Supervisor."""
        await asyncio.sleep(0.01)
        with suppress(StorageError):
            await self._run(task, epoch, run)

    async def _run(self, task: str, epoch: int, run: int) -> None:
        """Start the ready steps or defer them, and record the outcomes of calls."""
        await self.gates.refresh()
        own: set[str] = set()

        def plan(record: TaskRecord, now: datetime) -> list[Event]:
            events: list[Event] = []
            for name in ready_steps(record) if record.epoch == epoch else ():
                spec = record.order.by_name[name]
                gate = self.gates.of(spec.gate)
                if gate is not None and gate.blocks(is_released=record.current(name).is_released):
                    events.append(StepDeferred(epoch=epoch, step=name))
                    continue
                own.add(start_id := new_id())
                by = now + timedelta(seconds=spec.complete_within)
                events.append(
                    StepStarted(
                        epoch=epoch, run=run, step=name, start_id=start_id, complete_by=by, request="{}"
                    )
                )
            return events

        record = (await self.change(task, RunStarted(epoch=epoch, run=run), plan=plan)).record
        for spec, operation in record.operations:
            if operation.start_id not in own or operation.state is not OperationState.RUNNING:
                continue
            assert operation.started_at is not None
            assert operation.complete_by is not None
            request = Request(record, operation.start_id or "", operation.started_at, operation.complete_by)
            if spec.type is StepType.QUEUE:
                self.scene.agent.waiting.append(request)
                continue
            began_at = virtual_now()
            kind = await self.scene.service.call(task)
            await self.gates.report(spec.gate, kind, began_at)
            await self.change(task, ended(request, kind))

    async def reply(self, request: Request, kind: OutcomeKind) -> None:
        """Record the reply of an Agent, and count it at the gate."""
        applied = await self.change(request.task, ended(request, kind))
        operation = applied.record.do("s")
        sent_at = operation.started_at if operation.start_id == request.start_id else None
        is_deferred = applied.rejection is None and kind is OutcomeKind.NOT_BEGUN
        await self.gates.reply(QUEUE, sent_at, is_taken=not is_deferred)


def ended(request: Request, kind: OutcomeKind) -> StepEnded:
    """Return the outcome of the only step of a task."""
    is_done = kind is OutcomeKind.DONE
    return StepEnded(
        epoch=request.record.epoch,
        step="s",
        direction=Direction.DO,
        start_id=request.start_id,
        kind=kind,
        result="{}" if is_done else None,
        error=None if is_done else "it failed",
    )


class Scene:
    """The hosts, and the rest of the world. `loses` returns whether message `link` of a chain is lost."""

    def __init__(
        self,
        *,
        service: Service | None = None,
        agent: QueueAgent | None = None,
        shards: int = 3,
        settings: RuleSettings = SETTINGS,
    ) -> None:
        self.table = IndexedTable(seconds=0.005)
        self.shards, self.settings = shards, settings
        self.service, self.agent = service or Service(), agent or QueueAgent()
        self.loses: Callable[[int], bool] = lambda _link: False
        self.loses_runs = False
        self.copies = 1
        self.links: list[int] = []
        self.sent: list[Message] = []
        self.hosts = [Host(self) for _ in range(3)]
        self.turns = cycle(self.hosts)
        self._work: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []
        if agent is not None:
            self.spawn(agent.serve(self._reply))

    async def _reply(self, request: Request, kind: OutcomeKind) -> None:
        self.spawn(next(self.turns).reply(request, kind))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do some work beside the test."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._errors.append(error)

    async def schedule_release(self, name: str, link: int, at: datetime) -> None:
        """Deliver the message of a release chain to the next host, maybe several times."""
        self.links.append(link)
        for _ in range(0 if self.loses(link) else self.copies):
            self.spawn(self._release(name, link, at))

    async def _release(self, name: str, link: int, at: datetime) -> None:
        await asyncio.sleep(max(0.0, (at - virtual_now()).total_seconds()) + 0.01)
        while True:
            try:
                await next(self.turns).gates.release(name, link)
            except StorageError:  # the message is delivered again
                await asyncio.sleep(1)
            else:
                return

    async def send(self, message: Message) -> None:
        """Send a message of the outbox."""
        self.sent.append(message)

    async def admit(self, count: int, spec: StepSpec = CALL, *, within: float = 0, start: str = "t") -> None:
        """Admit tasks with one step, at regular times `within` seconds."""
        for number in range(count):
            await next(self.turns).admit(f"{start}{number:04d}", spec)
            await asyncio.sleep(within / count)

    async def admit_deferred(self, count: int, spec: StepSpec = CALL) -> None:
        """Admit tasks whose step is deferred already, one each second of the past."""
        host = self.hosts[0]

        async def one(number: int) -> None:
            at = START - timedelta(seconds=count - number)
            record = admit(order(f"t{number:04d}", spec, at=at), at, self.settings)
            event = StepDeferred(epoch=1, step="s")
            record = fold(record, event, None, at, self.settings).record
            await host.storage.admit(replace(record, outbox=()))

        await asyncio.gather(*map(one, range(count)))

    async def sweep(self) -> None:
        """Sweep once on the next host."""
        await next(self.turns).supervisor.run()

    async def live(self, duration: float, *, sweep_every: float = 30) -> None:
        """Let time pass, with sweeps. Raises the errors of the hosts."""
        end = seconds() + duration
        while seconds() < end:
            await asyncio.sleep(min(sweep_every, end - seconds()))
            if seconds() < end:
                await self.sweep()
        if self._errors:
            raise self._errors[0]

    async def gate(self, name: str = SERVICE) -> Gate:
        """Return the gate as it is recorded."""
        gate, _ = await self.hosts[0].gates.read(name)
        return gate

    def amounts(self, name: str = SERVICE) -> list[int]:
        """Return the numbers of steps of a gate's intervals, in their order."""
        gates = [each.row for changes in self.table.transactions for each in changes if each.key == name]
        recorded = [json.loads((row or {})["Gate"]) for row in gates]
        links = [(gate["link"], gate.get("amount", 0)) for gate in recorded if gate.get("amount")]
        return [amount for _, amount in sorted(dict(links).items())]

    async def records(self) -> list[TaskRecord]:
        """Return the records of all tasks."""
        keys = {key.partition("|")[0] for key in self.table.keys("t")}
        found = [await self.hosts[0].storage.load(task) for task in sorted(keys)]
        return [record for record in found if record is not None]
