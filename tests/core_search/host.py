"""One instance of the application: its clock, its view of the gates, its inbox and its Supervisor.

The functions around the core are the smallest ones that use it correctly; `host_run.py` has its runs. The
work of a crashed host has no effect, since each access to the world passes `Host.cross`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from functions.core.conclusions import add_child_ended
from functions.core.derive import ProcessState, derive
from functions.core.gate_rules import (
    Circuit,
    Gate,
    end_hold,
    failed,
    next_link,
    not_taken,
    overdue,
    replied,
    served,
    start_hold,
    succeeded,
)
from functions.core.plan import (
    check_deployed,
    output_of,
    with_valid_result,
)
from functions.core.record import (
    Message,
    MessageKind,
    NotDeployedError,
    RuleSettings,
    StepType,
    TaskRecord,
)
from functions.core.rules import Applied, Plan, admit, fold
from functions.core.task_events import (
    Cancelled,
    Canceller,
    ChildEnded,
    Due,
    Event,
    GateReleased,
    OutcomeKind,
    Resumed,
    StepEnded,
)
from functions.core.workflow_definition import Workflow, WorkflowRegistry

if TYPE_CHECKING:
    from tests.core_search.world import World

#: Seconds of one run.
RUN_SECONDS = 30
#: Seconds for which a message's event is tried, before the message is delivered again.
_TRY_SECONDS = 20
#: Recoveries of one sweep; seconds after which an unsent message is sent by the relay.
_RECOVERIES, _UNSENT_SECONDS = 3, 10
_FRESH = timedelta(seconds=2)
_LAG = timedelta(seconds=10)
_LOST_CHAIN = timedelta(seconds=15)

SETTINGS = RuleSettings(
    start_within=timedelta(seconds=20),
    threshold=2,
    extended_waits=(timedelta(seconds=60), timedelta(seconds=300)),
    first_deferral=timedelta(seconds=5),
    longest_deferral=timedelta(seconds=60),
    release_interval=timedelta(seconds=3),
    open_after=2,
    defer_for=timedelta(minutes=10),
)


class StoreError(Exception):
    """The store did not answer; the change may be recorded."""


class NoSuchTaskError(Exception):
    """The task is not recorded yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A message between parts of the application that is not in the outbox."""

    kind: str
    id: str
    task: str
    at: datetime
    body: dict[str, Any] = field(default_factory=dict)


class HostRegistry(WorkflowRegistry):
    """The workflows of one host; those in `missing` are not deployed on it."""

    def __init__(self, workflows: list[Workflow[Any]]) -> None:
        super().__init__(workflows)
        self.missing: set[str] = set()

    def find(self, name: str, version: int | None = None) -> Workflow[Any] | None:
        """Return a workflow unless it is missing."""
        return None if name in self.missing else super().find(name, version)


class Host:
    """One instance of the application."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_alive = True
        self.death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.skew = timedelta(seconds=world.random.uniform(-0.9, 0.9) if world.is_faulty else 0)
        self.registry = HostRegistry(list(world.definitions.workflows.values()))
        self.settings = replace(SETTINGS, output=lambda record: output_of(record, self.registry))
        self.gates = HostGates(self)

    def now(self) -> datetime:
        """Return the time by this host's clock."""
        return self.world.now() + self.skew

    async def cross(self, kind: str) -> None:
        """Access the world; a host may crash on the way, and a crashed host waits forever."""
        await self.alive()
        await asyncio.sleep(self.world.random.uniform(0.001, 0.05))
        if self.world.strikes(f"crash at {kind}", 0.004):
            self.world.crash(self)
        await self.alive()

    async def alive(self) -> None:
        """Wait forever if the host has crashed."""
        if not self.is_alive:
            await asyncio.get_running_loop().create_future()

    # The store

    async def load(self, task: str) -> TaskRecord:
        """Read a task. Raises `NoSuchTaskError` and `StoreError`."""
        await self.cross("read")
        if self.world.strikes("read fails", 0.02):
            raise StoreError
        if task not in self.world.records:
            raise NoSuchTaskError
        return self.world.records[task]

    async def change(
        self, task: str, event: Event | None, *, steps: Plan | None = None, until: datetime
    ) -> Applied:
        """Record an event and the plan of a run. Raises `NoSuchTaskError`, and `StoreError` after `until`."""
        world = self.world
        while True:
            await self.cross("write")
            if task not in world.records:
                raise NoSuchTaskError
            if self.now() > until:
                raise StoreError
            if not world.strikes("write not sent", 0.03):
                break
            await asyncio.sleep(world.random.uniform(0.1, 3))
        before = world.records[task]
        applied = fold(before, event, steps, self.now(), self.settings)
        if applied.rejection is None:
            world.checks.check_event(event, before)
        await self._commit(before, applied.record)
        return replace(applied, record=world.records[task] if applied.rejection else applied.record)

    async def insert(self, record: TaskRecord) -> TaskRecord:
        """Record a new task, or return the one on record."""
        await self.cross("write")
        there = self.world.records.get(record.order.task)
        if there is None:
            await self._commit(None, record)
        return there or record

    async def _commit(self, before: TaskRecord | None, after: TaskRecord) -> None:
        if after is before:
            return
        messages = self.world.commit(before, after)
        if self.world.strikes("write not acknowledged", 0.03):
            raise StoreError
        await self.cross("written")
        for message in messages:
            await self.send(message)

    async def send(self, message: Message | Envelope) -> bool:
        """Send a message, and remove it from the outbox; return whether it is certain to be sent."""
        world = self.world
        await self.cross("send")
        if world.strikes("message not sent", 0.05):
            return False
        delay = 0.0 if isinstance(message, Message) else (message.at - world.now()).total_seconds()
        world.post(message, max(0.0, delay))
        await self.alive()
        if world.strikes("send not acknowledged", 0.05):
            return False
        world.outbox.pop(message.id, None)
        return True

    # Messages

    async def record(self, task: str, event: Event) -> Applied:
        """Record an event that a message carries."""
        return await self.change(task, event, until=self.now() + timedelta(seconds=_TRY_SECONDS))

    async def reply(self, task: str, ended: StepEnded) -> None:
        """Record the reply of an Agent behind a queue, and count it at the gate."""
        ended = with_valid_result(await self.load(task), self.registry, ended)
        applied = await self.record(task, ended)
        spec = applied.record.order.by_name[ended.step]
        operation = applied.record.step(ended.step).operation(ended.direction)
        sent_at = operation.started_at if operation.start_id == ended.start_id else None
        is_deferred = applied.rejection is None and ended.kind is OutcomeKind.NOT_BEGUN
        await self.gates.refresh()
        await self.gates.reply(spec.gate, sent_at, is_taken=not is_deferred)

    async def receive(self, message: Message | Envelope) -> None:
        """Handle a message of the application; it may be late and repeated."""
        body: Any = message.body
        match message.kind:
            case "run":
                await self.cross("start")
                self.world.start_instance(message.task, body["epoch"], body["run"])
            case "wake":
                await self.record(message.task, Due())
            case "release":
                await self.gates.release(body["gate"], body["link"])
            case MessageKind.START_CHILD:
                await self._start_child(message)
            case MessageKind.CANCEL_CHILD:
                cancelled = Cancelled(by=Canceller.PARENT, who=message.task, reason="its parent is undone")
                await self.record(message.to, cancelled)  # type: ignore[union-attr]
                await self._repeat_end(message)
            case MessageKind.CHILD_ENDED:
                await self._end_child(message)

    async def _start_child(self, message: Message | Envelope) -> None:
        body: Any = message.body
        workflow = self.registry.find(body["workflow"])
        if workflow is None:
            raise StoreError
        assert isinstance(message, Message)
        now = self.now()
        order = workflow.new_order(
            message.to, "child", body["payload"], now, parent=message.task, parent_step=body["step"]
        )
        child = await self.insert(admit(order, now, self.settings))
        if child.finished_at is not None and child.error is None:  # its parent starts it again
            ended = add_child_ended(replace(child, outbox=()), now).outbox[0]
            await self._end_child(ended)
        await self._repeat_end(message)

    async def _repeat_end(self, message: Message | Envelope) -> None:
        """Repeat the end of the other children of a step, as a late message does."""
        step, child = (message.task, message.body["step"]), getattr(message, "to", "")
        for other in list(self.world.records.values()):
            is_of_step = (other.order.parent, other.order.parent_step) == step
            if is_of_step and other.order.task != child and self.world.intensity:
                await self._end_child(replace(message, task=other.order.task))

    async def _end_child(self, message: Message | Envelope) -> None:
        child = await self.load(message.task)
        state, order = derive(child).state, child.order
        assert order.parent is not None
        assert order.parent_step is not None
        if state not in {ProcessState.PROCESSED, ProcessState.COMPENSATED}:
            return
        is_done = state is ProcessState.PROCESSED
        ended = ChildEnded(
            step=order.parent_step,
            run_id=self.world.records[order.parent].order.run_id,
            is_done=is_done,
            child=order.task,
            result=(child.output or "{}") if is_done else None,
            error=None if is_done else child.reason or "it was undone",
        )
        await self.record(order.parent, ended)

    # The Supervisor

    async def sweep(self, *, is_overloaded: bool) -> None:
        """Examine all tasks that are due or suspended, and the unsent messages."""
        world = self.world
        await self.gates.refresh(is_forced=True)
        await self.gates.start_missing_chains()
        recovered = 0
        for task, record in list(world.records.items()):
            due_at = derive(record).due_at
            if due_at is not None and due_at <= self.now():
                recovered += await self._examine(task, is_overloaded=is_overloaded, recovered=recovered)
            elif record.suspension is not None and not record.suspension.by_operator:
                await self._resume(task, record)
        for message in list(world.outbox.values()):
            if message.at <= self.now() - timedelta(seconds=_UNSENT_SECONDS):
                await self.send(message)

    async def _examine(self, task: str, *, is_overloaded: bool, recovered: int) -> bool:
        may_recover = recovered < _RECOVERIES
        try:
            before = await self.load(task)
            queues = await self.gates.decide(before, may_recover=may_recover)
            holds = {gate.name: gate.holds for gate in self.gates.view.values() if gate.holds}
            due = Due(may_recover=may_recover, is_overloaded=is_overloaded, holds=holds, queues=queues)
            applied = await self.record(task, due)
        except StoreError:
            return False
        return applied.record.epoch > before.epoch

    async def _resume(self, task: str, record: TaskRecord) -> None:
        try:
            check_deployed(record, self.registry)
            await self.record(task, Resumed())
        except (StoreError, NotDeployedError):
            return


class HostGates:
    """The gates as one host sees them, at most two seconds old, and the release chains."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.view: dict[str, Gate] = {}
        self._read_at: datetime | None = None
        self._failures = Counter[str]()
        self._noted_at: dict[str, datetime] = {}

    async def refresh(self, *, is_forced: bool = False) -> None:
        """Read all gates unless they were read within two seconds. Raises `StoreError` if it is forced."""
        now = self._host.now()
        if not is_forced and self._read_at is not None and now - self._read_at < _FRESH:
            return
        self._read_at = now
        await self._host.cross("read")
        if self._host.world.strikes("read fails", 0.02):
            if is_forced:
                raise StoreError
            return
        self.view = dict(self._host.world.gates)

    async def report(self, name: str, kind: OutcomeKind, began_at: datetime) -> None:
        """Count the outcome of a call at its gate."""
        if kind is OutcomeKind.UNKNOWN:
            self._failures[name] += 1
        elif kind is not OutcomeKind.NOT_BEGUN:
            self._failures.pop(name, None)
        gate = self.view.get(name)
        is_half_open = gate is not None and gate.circuit is Circuit.HALF_OPEN
        is_row = self._failures[name] >= SETTINGS.open_after
        if not (kind is OutcomeKind.NOT_BEGUN or is_half_open or is_row):
            return

        def change(gate: Gate) -> Gate:
            if kind in {OutcomeKind.UNKNOWN, OutcomeKind.NOT_BEGUN}:
                return failed(gate, began_at, self._host.now(), SETTINGS)
            return succeeded(gate, began_at)

        try:
            await self.change(name, change)
        except StoreError:
            return

    async def reply(self, name: str, sent_at: datetime | None, *, is_taken: bool) -> None:
        """Count a reply at the gate of its queue. A reply without failures before it writes nothing."""
        now = self._host.now()
        is_noted = name in self._noted_at and now - self._noted_at[name] < _FRESH
        is_behind = sent_at is not None and now - sent_at > _LAG and not is_noted

        def change(gate: Gate) -> Gate:
            gate = replied(gate, sent_at if is_taken else None, now)
            if is_behind and sent_at is not None:
                gate = served(gate, sent_at, now)
            return gate if is_taken else not_taken(gate, sent_at or now, now, SETTINGS)

        seen = self.view.get(name) or Gate(name=name)
        if change(seen) is seen:
            return
        if is_behind:
            self._noted_at[name] = now
        try:
            await self.change(name, change)
        except StoreError:
            return

    async def decide(self, record: TaskRecord, *, may_recover: bool) -> dict[str, Gate]:
        """Count a task's overdue requests; return the gates as they were before that."""
        now, first = self._host.now(), dict[str, tuple[datetime, datetime]]()
        for spec, op in record.operations():
            may_count = spec.may_fail or (may_recover and record.decision is None)
            is_once = spec.must_not_repeat(record.direction)
            is_counted = spec.type is StepType.QUEUE and may_count and not is_once
            if is_counted and op.is_overdue(now - SETTINGS.skew) and op.started_at and op.complete_by:
                request = (op.started_at, op.complete_by)
                first[spec.gate] = min(first.get(spec.gate, request), request)
        decided = dict[str, Gate]()
        for name, (sent_at, ends_at) in first.items():
            try:
                decided[name] = await self._count_overdue(name, sent_at, ends_at, now)
            except StoreError:
                continue
        return decided

    async def _count_overdue(self, name: str, sent_at: datetime, ends_at: datetime, now: datetime) -> Gate:
        seen = Gate(name=name)

        def change(gate: Gate) -> Gate:
            nonlocal seen
            seen = gate
            return overdue(gate, sent_at, ends_at, now, SETTINGS)

        await self.change(name, change)
        return seen

    async def hold(self, name: str) -> None:
        """Close a gate for an operator."""
        await self.change(name, lambda gate: start_hold(gate, "maintenance", "op", self._host.now()))

    async def end_hold(self, name: str) -> None:
        """End an operator's hold."""
        await self.change(name, lambda gate: end_hold(gate, self._host.now()))

    async def change(self, name: str, change: Callable[[Gate], Gate]) -> None:
        """Change a gate's row, and send the message of its release chain. Raises `StoreError`."""
        world = self._host.world
        await self._host.cross("write")
        if world.strikes("write not sent", 0.02):
            raise StoreError
        gate = world.gates.get(name) or Gate(name=name)
        after = change(gate)
        self.view[name] = after
        if after is not gate:
            world.commit_gate(after)
            await self._host.cross("written")
            if after.link != gate.link:
                await self._send_link(after)

    async def release(self, name: str, link: int) -> None:
        """Handle the message of a release chain: release the steps that wait longest, send the next one."""
        host, world = self._host, self._host.world
        await host.cross("read")
        gate = world.gates.get(name) or Gate(name=name)
        if gate.link != link or gate.hold is not None:
            return
        waiting = self._waiting(name)
        after = next_link(gate, host.now(), SETTINGS, is_waiting=bool(waiting))
        if after is not gate:
            world.commit_gate(after)
            self.view[name] = after
            await host.cross("written")
        amount = after.amount if after is not gate else 0
        for _, task, count in waiting:
            most = min(count, amount)
            if most > 0:
                try:
                    await host.record(task, GateReleased(gate=name, most=most, holds=gate.holds))
                except StoreError:
                    continue
            amount -= most
        await self._send_link(after)

    async def start_missing_chains(self) -> None:
        """Start the release chain of each gate behind which steps wait, if its message was lost."""
        for name in sorted(
            {gate for record in self._host.world.records.values() for gate in derive(record).gates}
        ):
            gate = self._host.world.gates.get(name) or Gate(name=name)
            is_lost = gate.next_at is None or gate.next_at < self._host.now() - _LOST_CHAIN
            if is_lost and gate.hold is None:
                await self._send_link(replace(gate, next_at=self._host.now()))

    async def _send_link(self, gate: Gate) -> None:
        if gate.next_at is not None:
            message_id, body = f"{gate.name}.release.{gate.link}", {"gate": gate.name, "link": gate.link}
            await self._host.send(
                Envelope(kind="release", id=message_id, task="", at=gate.next_at, body=body)
            )

    def _waiting(self, name: str) -> list[tuple[datetime, str, int]]:
        """Return time, task and number of steps of the tasks behind a gate, in waiting order."""
        records = self._host.world.records
        gates = ((task, derive(record).gates.get(name)) for task, record in records.items())
        return sorted((row[0], task, row[1]) for task, row in gates if row is not None)
