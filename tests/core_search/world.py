"""The world of one seed: time, chance, hosts, messages, and the records that all hosts share.

`drawn.py` draws its workflows, `services.py` has the remote services, `host.py` the application, `people.py`
callers and operators, `checks.py` the invariants.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from functions.core.derive import derive
from functions.core.gate_rules import Gate
from functions.core.record import (
    ClosedEpoch,
    Message,
    MessageKind,
    TaskRecord,
    scheduler_id,
)
from functions.core.task_events import StepEnded
from tests.core_search.checks import Checks, ViolationError
from tests.core_search.drawn import Definitions
from tests.core_search.host import RUN_SECONDS, Envelope, Host, NoSuchTaskError, StoreError
from tests.core_search.host_run import HostRun
from tests.core_search.people import People
from tests.core_search.services import Call, NotBegunError, RefusedError, Services

START = datetime(2026, 1, 1, tzinfo=UTC)
#: Seconds after the last fault within which every task ends.
_BOUND = 6 * 3600
#: Messages to the application; all others leave it.
_OWN = {"run", "wake", "release", MessageKind.START_CHILD, MessageKind.CANCEL_CHILD, MessageKind.CHILD_ENDED}


class World:
    """All that hosts share. `intensity` multiplies the chance of each fault; with 0 no fault is drawn."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.start = START
        self.random = Random(seed)
        self.is_faulty = True
        self.intensity = self.random.choice([0.0, 0.5, 1.0, 2.0, 3.0])
        self.deployment = 0
        self.records: dict[str, TaskRecord] = {}
        self.closed: dict[str, list[ClosedEpoch]] = {}
        self.outbox: dict[str, Message] = {}
        self.gates: dict[str, Gate] = {}
        self.hosts: list[Host] = []
        self.posted: set[tuple[str, str | None]] = set()
        self.replying = Counter[str]()
        self.faults = Counter[str]()
        self.covered: set[tuple[str, str]] = set()
        self.violation: ViolationError | None = None
        self.story: list[str] = []
        self.definitions = Definitions(self.random, lambda: self.deployment, self.now)
        self.services = Services(self)
        self.checks = Checks(self)
        self.people = People(self)
        self._instances: set[tuple[str, int, int]] = set()
        self._numbers = 0
        self._background = set[asyncio.Task[Any]]()

    # Time and chance

    def now(self) -> datetime:
        """Return the true time (UTC)."""
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    def new_id(self) -> str:
        """Return a unique id."""
        self._numbers += 1
        return f"{self._numbers:08x}"

    def strikes(self, fault: str, chance: float) -> bool:
        """Draw whether a fault happens."""
        if self.is_faulty and self.random.random() < chance * self.intensity:
            self.faults[fault] += 1
            return True
        return False

    def require(self, holds: object, text: str) -> None:
        """Record a violation unless `holds`. It raises nothing that the application could catch."""
        if not holds and self.violation is None:
            self.violation = ViolationError(text)
            self.log(f"!! {text}")

    def cover(self, task: str, fact: str) -> None:
        """Count a fact of a task for the summary of the search."""
        self.covered.add((task, fact))

    def log(self, line: str) -> None:
        """Add a line to the story of the seed."""
        self.story.append(f"{asyncio.get_running_loop().time():9.3f} {line}")

    def spawn(self, work: Any) -> None:
        """Run a coroutine in the background. An error in it is a violation."""
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _guarded(self, work: Awaitable[Any]) -> None:
        try:
            await work
        except ViolationError as violation:
            self.require(False, str(violation))
        except Exception as defect:  # noqa: BLE001 - any error is a defect
            self.require(False, f"defect: {defect!r}")

    # Hosts

    def crash(self, host: Host) -> None:
        """Stop a host; another one starts within 20 seconds."""
        if not host.is_alive:
            return
        self.log(f"** {host.name} crashes")
        host.is_alive = False
        host.death.set_result(None)
        if host in self.hosts:
            self.hosts.remove(host)
            self.spawn(self._start_host(host.name))

    async def _start_host(self, name: str) -> None:
        await asyncio.sleep(self.random.uniform(0.5, 20))
        self.hosts.append(Host(self, name))

    async def on_some_host(self, work: Callable[[Host], Awaitable[Any]], *, wait: float = 15) -> Any:
        """Run work on a live host, again within `wait` seconds if the host crashes or the store fails."""
        for _ in range(400):
            if self.hosts:
                host = self.random.choice(self.hosts)
                task = asyncio.ensure_future(work(host))
                await asyncio.wait({task, host.death}, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    try:
                        return task.result()
                    except (StoreError, NoSuchTaskError):
                        pass
                else:
                    self._background.add(task)  # it waits forever
            await asyncio.sleep(self.random.uniform(0.1, wait))
        raise ViolationError("400 attempts failed")

    async def _supervise(self, name: str) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(5, 15))
            for host in [each for each in self.hosts if each.name == name]:
                is_overloaded = self.strikes("submissions delayed", 0.1)
                sweep = asyncio.ensure_future(self._swept(host, is_overloaded=is_overloaded))
                await asyncio.wait({sweep, host.death}, return_when=asyncio.FIRST_COMPLETED)

    async def _swept(self, host: Host, *, is_overloaded: bool) -> None:
        try:
            await host.sweep(is_overloaded=is_overloaded)
        except StoreError:
            return
        except Exception as defect:  # noqa: BLE001 - any error is a defect
            self.require(False, f"defect: {defect!r}")

    # Records

    def commit(self, before: TaskRecord | None, after: TaskRecord) -> list[Message | Envelope]:
        """Store a change, check it, and return the messages that its host sends."""
        task = after.order.task
        self._log_change(after)
        self.closed.setdefault(task, []).extend(after.closed)
        self.outbox.update({message.id: message for message in after.outbox})
        stored = _without_additions(after)
        self.records[task] = stored
        self.checks.check_change(before, after)
        return [*_timely_messages(before, stored), *after.outbox]

    def commit_gate(self, gate: Gate) -> None:
        """Store a change of a gate, and check it."""
        self.gates[gate.name] = gate
        self.log(f"   gate {gate.name} {gate.circuit} openings {gate.openings} failures {gate.failures}")
        self.checks.check_gate(gate)

    def _log_change(self, record: TaskRecord) -> None:
        columns = derive(record)
        steps = (f" {name}={record.current(name).state}" for name in record.steps)
        self.log(
            f"   {record.order.task} {columns.state}/{columns.waiting_for} epoch {record.epoch}"
            f" run {record.run} {record.direction} f{record.failures}{''.join(steps)}"
            f"{f' decision {record.decision.end}' if record.decision else ''}"
            f"{f' [{record.reason}]' if record.reason else ''}"
        )

    # Messages and Durable instances

    def post(self, message: Message | Envelope, delay: float) -> None:
        """Deliver a message after `delay` seconds, sometimes late or twice."""
        self.posted.add((message.task, message.kind))
        for _ in range(2 if self.strikes("message twice", 0.05) else 1):
            late = self.random.uniform(1, 60) if self.strikes("message late", 0.05) else 0
            self.spawn(self._deliver(message, delay + late + self.random.uniform(0.001, 0.1)))

    async def _deliver(self, message: Message | Envelope, delay: float) -> None:
        await asyncio.sleep(delay)
        if message.kind in _OWN:
            self.log(f"{message.kind} {message.id}")
            await self.on_some_host(lambda host: host.receive(message))

    async def deliver_reply(self, ended: StepEnded, task: str) -> None:
        """Deliver the reply of a queue Agent. Without a fault it resets the failures of its gate."""
        gate = self.records[task].order.by_name[ended.step].gate
        before = self.checks.failing(gate)
        self.replying[task] += 1
        await self.on_some_host(lambda host: host.reply(task, ended))
        self.replying[task] -= 1
        if before is not None and not self.intensity:
            self.cover(task, "reply after failures")
            self.require(self.checks.failing(gate) != before, f"{gate}: a reply did not reset its failures")

    def request(self, agent: str, call: Call) -> None:
        """Put a request into the queue of an Agent, sometimes twice."""
        self.check_call(call)
        for _ in range(2 if self.strikes("request twice", 0.05) else 1):
            self.spawn(self.services.serve(agent, call))

    def start_instance(self, task: str, epoch: int, run: int) -> None:
        """Start a Durable instance, unless it is running."""
        if (task, epoch, run) not in self._instances:
            self._instances.add((task, epoch, run))
            self.spawn(self._instance(task, epoch, run))

    async def _instance(self, task: str, epoch: int, run: int) -> None:
        progress = "more"
        while progress == "more" and not self.strikes("instance lost", 0.02):
            if self.strikes("activity twice", 0.05):
                self.spawn(self._activity(task, epoch, run))
            progress = await self._activity(task, epoch, run)
            self.cover(task, f"run returned {progress}")
        self._instances.discard((task, epoch, run))

    async def _activity(self, task: str, epoch: int, run: int) -> str:
        name = scheduler_id(task, epoch, run)

        async def work(host: Host) -> str:
            self.log(f"run {name} on {host.name}")
            began = asyncio.get_running_loop().time()
            progress = await HostRun(host, task, epoch, run).to_its_end()
            seconds = asyncio.get_running_loop().time() - began
            self.require(seconds < RUN_SECONDS + 5, f"{name}: a run of {seconds} s")
            return progress

        return str(await self.on_some_host(work, wait=self.random.choice([3, 60])))

    # Calls

    def check_call(self, call: Call) -> None:
        """Check that the start of a call is on record, with the request that is sent."""
        operation = self.records[call.task].step(call.step).operation(call.direction)
        self.require(operation.number is not None, f"{call.effect_key}: called without a record")
        self.require(operation.request == call.request, f"{call.effect_key}: not the request on record")

    async def call_agent(self, host: Host, agent: str, call: Call) -> str:
        """Call a service; a call may arrive when its caller has crashed, and an answer may be lost."""
        await host.cross("call")
        if self.strikes("not begun", 0.04) or self.services.is_down(agent):
            if self.intensity and call.idempotent and self.random.random() < 0.2:
                raise ConnectionError("connection closed")
            raise NotBegunError("the service takes no calls")
        self.check_call(call)
        if self.strikes("call late", 0.06):
            self.services.arrive_later(call, self.random.uniform(1, 90))
            await asyncio.sleep(200)  # beyond the timeout of its caller
        if self.strikes("call lost", 0.05):
            if self.random.random() < 0.5:
                self.services.arrive_later(call, self.random.uniform(1, 400))
            if call.idempotent and self.random.random() < 0.5:
                try:
                    return await self.call_agent(host, agent, call)  # a retry
                except RefusedError as error:
                    raise RefusedError(str(error), has_unanswered=True) from error
            raise ConnectionError("no answer")
        result = await self.services.call(call)
        await host.alive()
        if self.strikes("answer lost", 0.06):
            raise ConnectionError("no answer")
        await host.cross("answer")
        return result

    # The course of a seed

    async def run(self) -> None:
        """Draw tasks, run them through all faults, stop the faults, and check the end."""
        self.definitions.draw()
        for name in ("h1", "h2", "h3")[: self.random.randint(1, 3)]:
            self.hosts.append(Host(self, name))
            self.spawn(self._supervise(name))
        self.people.start()
        await self._until(self.random.uniform(60, 400), is_over=lambda: False)
        self._stop_faults()
        await self._until(_BOUND, is_over=self._is_at_rest)
        self._check_end()
        for _ in range(80):  # operators resolve every task
            stopped = [task for task, record in self.records.items() if record.error is not None]
            if not stopped:
                break
            for task in stopped:
                await self.people.operate(task, is_final=True)
            await self._until(_BOUND, is_over=self._is_at_rest)
        else:
            self.require(False, f"{stopped}: not resolved: {self.records[stopped[0]].error}")
        self._check_end()

    def _check_end(self) -> None:
        self.checks.check_end()
        if self.violation is not None:
            raise self.violation

    def _stop_faults(self) -> None:
        self.log("-- no more faults")
        self.is_faulty = False
        for host in self.hosts:
            host.registry.missing.clear()

    async def _until(self, seconds: float, *, is_over: Callable[[], bool]) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(5)
            if self.violation is not None:
                raise self.violation
            if is_over():
                return
            if not self.is_faulty:
                for task, record in list(self.records.items()):
                    if record.suspension is not None and record.suspension.by_operator:
                        await self.people.operate(task, is_final=True)

    def _is_at_rest(self) -> bool:
        is_there = set(self.definitions.tasks) <= set(self.records)
        has_ended = all(record.finished_at is not None for record in self.records.values())
        return is_there and has_ended and not self.outbox and not any(self.services.in_flight.values())


def _without_additions(record: TaskRecord) -> TaskRecord:
    """Return a record as it is read from the store."""
    return TaskRecord(
        **{
            name: getattr(record, name)
            for name in TaskRecord.__dataclass_fields__
            if name not in {"closed", "outbox"}
        }
    )


def _timely_messages(before: TaskRecord | None, after: TaskRecord) -> list[Envelope]:
    """Return the messages that start a run and that wake the task; the due time is their backup."""
    messages, task = list[Envelope](), after.order.task
    is_open = after.finished_at is None and after.suspension is None and after.resume_at is None
    if is_open and (before is None or (after.epoch, after.run) > (before.epoch, before.run)):
        name, body = scheduler_id(task, after.epoch, after.run), {"epoch": after.epoch, "run": after.run}
        messages.append(Envelope(kind="run", id=name, task=task, at=START, body=body))
    wake_at = derive(after).wake_at
    if wake_at is not None and (before is None or wake_at != derive(before).wake_at):
        messages.append(Envelope(kind="wake", id=f"{task}.wake.{wake_at}", task=task, at=wake_at))
    return messages
