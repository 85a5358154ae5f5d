"""The world of one seed: time, chance, hosts, the bus, Durable instances, and the table that all hosts share.

`drawn.py` draws its workflows, `services.py` has the remote services, `host.py` wires the product's parts,
`people.py` has callers and operators, `course.py` the phases of a seed, `checks.py` the invariants.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from pydantic_core import from_json, to_json

from functions.agents.agent_call import Call, NotBegunError, RefusedError
from functions.core.derive import derive
from functions.core.gate_rules import Gate
from functions.core.record import (
    NOTICES,
    Message,
    MessageKind,
    NotDeployedError,
    Operation,
    OperationState,
    TaskRecord,
)
from functions.core.task_events import Event
from functions.messaging.agent_messages import AgentReply, AgentRequest, RequestKind
from functions.messaging.task_messages import ReleaseRequest, RunRequest, SchedulerMessage, WakeRequest
from functions.scheduler.run import scheduler
from functions.storage.table_contract import CorruptRowError, NoSuchTaskError, StorageError
from tests.fakes.simulated_table import SimulatedTable
from tests.simulation.checks import Checks
from tests.simulation.drawn import AGENTS, Definitions
from tests.simulation.host import Host
from tests.simulation.intake import Intake
from tests.simulation.people import People
from tests.simulation.record_checks import ViolationError
from tests.simulation.services import Services
from tests.simulation.table import SearchTable

START = datetime(2026, 1, 1, tzinfo=UTC)
#: Seconds in which the bus drops a second message of the same id (`infra/queues.json`).
_DUPLICATE_SECONDS = 600
#: Seconds beyond its limit that a run may take, with and without faults of the table.
_FAULTY_RUN, _RUN = 130, 4
#: Attempts to deliver a message.
_MOST_ATTEMPTS = 400
#: The allowed difference of two clocks, and a number of calls that no host has at once.
_SKEW, _NO_LIMIT = timedelta(seconds=2), 1000
#: The run that the current asyncio task belongs to.
_RUN_NAME: ContextVar[str] = ContextVar("run")


class World:
    """All that hosts share. `intensity` multiplies the chance of each fault; with 0 no fault is drawn.

    Faults of the names `without` do not happen. `crossings` counts the accesses of hosts to the world; the
    host of access number `crash_at` crashes.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.start = START
        self.random = Random(seed)
        self.is_faulty = True
        self.without = frozenset[str]()
        self.crossings = 0
        self.crash_at: int | None = None
        self.intensity = self.random.choice([0.0, 0.5, 1.0, 2.0, 3.0])
        self.shards = self.random.choice([4, 5])
        self.run_seconds = self.random.choice([30, 30, 60])
        self.steps_at_once = self.random.choice([2, 3, 16])
        self.calls_at_once = {
            agent: self.random.randint(1, 2) for agent in AGENTS if self.random.random() < 0.2
        }
        self.drops_duplicates = self.random.random() < 0.5
        self.sweep_gap = (8.0, 20.0)
        self.is_sweeping = True
        self.deployment = 0
        self.throttled_until = 0.0
        self.table = SearchTable(self, page=self.random.choice([1000, 1000, 4]))
        self.records: dict[str, TaskRecord] = {}
        self.gates: dict[str, Gate] = {}
        self.hosts: list[Host] = []
        self.posted: set[tuple[str, str | None]] = set()
        self.sent: dict[str, float] = {}
        self.delivered = set[str]()
        self.replying = Counter[str]()
        self.faults = Counter[str]()
        self.covered: set[tuple[str, str]] = set()
        self.violation: ViolationError | None = None
        self.story: list[str] = []
        self.definitions = Definitions(self.random, lambda: self.deployment, self.now)
        self.services = Services(self)
        self.checks = Checks(self)
        self.people = People(self)
        self.rejected, self.intake = SimulatedTable(), Intake(self)
        self._callers: dict[str, str] = {}
        self._answered = defaultdict[str, list[Call]](list)
        self._calls = Counter[object]()
        self._instances: set[str] = set()
        self._numbers = 0
        self._background = set[asyncio.Future[Any]]()

    # Time and chance

    def now(self) -> datetime:
        """Return the true time (UTC)."""
        return START + timedelta(seconds=asyncio.get_running_loop().time())

    def new_id(self) -> str:
        """Return a unique id; its first eight characters are unique, too."""
        self._numbers += 1
        return f"{self._numbers:08x}" * 2

    def strikes(self, fault: str, chance: float) -> bool:
        """Draw whether a fault happens."""
        is_drawn = self.is_faulty and self.random.random() < chance * self.intensity
        if is_drawn and fault not in self.without:
            self.faults[fault] += 1
            return True
        return False

    def is_crash(self, kind: str) -> bool:
        """Draw whether a host crashes at an access to the world."""
        self.crossings += 1
        if self.crossings == self.crash_at:
            self.faults[f"crash at {kind}"] += 1
            return True
        return self.strikes(f"crash at {kind}", 0.003)

    def is_throttled(self) -> bool:
        """Return whether the table rejects most requests."""
        return self.is_faulty and asyncio.get_running_loop().time() < self.throttled_until

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
        self._keep(asyncio.get_running_loop().create_task(self._guarded(work)))

    def _keep(self, task: asyncio.Future[Any]) -> None:
        """Keep a reference to a task, which may wait forever."""
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

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
        """Run work on a live host, again within `wait` seconds after a crash or an error of the table."""
        attempts = 0
        while attempts < _MOST_ATTEMPTS:
            attempts += 1
            if self.hosts:
                host = self.random.choice(self.hosts)
                task = asyncio.ensure_future(work(host))
                await asyncio.wait({task, host.death}, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    try:
                        return task.result()
                    except CorruptRowError:  # until the row is repaired
                        attempts, wait = 0, 120
                    except (StorageError, NotDeployedError, ConnectionError):
                        pass
                else:
                    self._keep(task)
            await asyncio.sleep(self.random.uniform(0.1, wait))
        raise ViolationError(f"{_MOST_ATTEMPTS} attempts failed")

    async def supervise(self) -> None:
        """Sweep on some host again and again: rarely twice at once, and each tenth time the whole table."""
        while True:
            await asyncio.sleep(self.random.uniform(*self.sweep_gap))
            is_idle = not self.is_faulty and not self.table.has_work()
            if not self.hosts or not self.is_sweeping or is_idle:
                continue
            for _ in range(2 if self.strikes("sweep twice", 0.1) else 1):
                is_overloaded = self.strikes("submissions delayed", 0.1)
                host = self.random.choice(self.hosts)
                sweep = asyncio.ensure_future(self._swept(host, is_overloaded=is_overloaded))
            await asyncio.wait({sweep, host.death}, return_when=asyncio.FIRST_COMPLETED)
            if self.random.random() < 0.1:
                await self.sweep_table()

    async def sweep_table(self) -> None:
        """Run a full sweep on some host."""
        await self.intake.measure()
        if self.hosts:
            host = self.random.choice(self.hosts)
            sweep = asyncio.ensure_future(self._swept_table(host))
            await asyncio.wait({sweep, host.death}, return_when=asyncio.FIRST_COMPLETED)

    async def _swept(self, host: Host, *, is_overloaded: bool) -> None:
        try:
            await host.sweep.run(is_overloaded=is_overloaded)
        except StorageError as error:
            self.log(f"sweep on {host.name}: {error}")
        except Exception as defect:  # noqa: BLE001 - any error is a defect
            self.require(False, f"defect: {defect!r}")

    async def _swept_table(self, host: Host) -> None:
        try:
            report = await host.table_sweep.run()
            self.log(f"full sweep on {host.name}: {dict(report.figures)}")
        except StorageError as error:
            self.log(f"full sweep on {host.name}: {error}")
        except Exception as defect:  # noqa: BLE001 - any error is a defect
            self.require(False, f"defect: {defect!r}")

    # Records

    def commit(self, event: Event | None, before: TaskRecord | None, after: TaskRecord) -> None:
        """Check a change of a record that was written, with the event that caused it."""
        self._log_change(after)
        if before is not None:
            self.checks.check_event(event, before, after)
        if before != after:
            self.checks.check_change(before, after)

    def commit_gate(self, gate: Gate) -> None:
        """Check a change of a gate that was written."""
        before = self.gates.get(gate.name)
        self.gates[gate.name] = gate
        self.log(
            f"   gate {gate.name} {gate.circuit} openings {gate.openings} failures {gate.failures}"
            f" link {gate.link} at {gate.next_at and (gate.next_at - START).total_seconds()}"
            f"{' held' if gate.hold else ''}"
        )
        self.checks.check_gate(before, gate)

    def _log_change(self, record: TaskRecord) -> None:
        columns = derive(record)
        steps = (f" {name}={record.current(name).state}" for name in list(record.steps)[:12])
        self.log(
            f"   {record.order.task} {columns.state}/{columns.waiting_for} epoch {record.epoch}"
            f" run {record.run} {record.direction} f{record.failures}{''.join(steps)}"
            f"{f' decision {record.decision.end}' if record.decision else ''}"
            f"{f' [{record.reason}]' if record.reason else ''}"
        )

    # The bus

    def post(self, message: SchedulerMessage) -> None:
        """Deliver a message, sometimes late or twice. Only messages with a backup are lost."""
        time = asyncio.get_running_loop().time()
        is_duplicate = self.drops_duplicates and time - self.sent.get(message.id, -1e9) < _DUPLICATE_SECONDS
        if not is_duplicate:
            self.sent[message.id] = time
        if isinstance(message, Message):
            self.posted.add((message.task, message.kind))
            if message.kind in {*NOTICES, MessageKind.ALERT}:
                return
        if is_duplicate:
            self.log(f"-- dropped as a duplicate: {message.id}")
            return
        if self.strikes("message lost", 0.03):
            return
        is_end = isinstance(message, Message) and message.kind is MessageKind.CHILD_ENDED
        for number in range(2 if self.strikes("message twice", 0.3 if is_end else 0.05) else 1):
            late = self.random.uniform(1, 60) if self.strikes("message late", 0.05) else 0
            late += number * self.random.uniform(0, 300)
            self.spawn(self.deliver(message, late + self.random.uniform(0.001, 0.1)))

    async def deliver(self, message: SchedulerMessage, late: float = 0) -> None:
        """Deliver a message `late` seconds after its time."""
        delay = 0.0
        if isinstance(message, WakeRequest | ReleaseRequest):
            at = message.not_before if isinstance(message, WakeRequest) else message.at
            delay = max(0.0, (at - self.now()).total_seconds())
        await asyncio.sleep(delay + late)

        async def receive(host: Host) -> None:
            self.log(f"{message.id} on {host.name}")
            self.delivered.add(message.id)
            try:
                await host.receivers.receive(message)
            except NoSuchTaskError as error:
                self.log(f"{message.id}: no task {error}")

        await self.on_some_host(receive)

    async def deliver_reply(self, reply: AgentReply) -> None:
        """Deliver the reply of a queue Agent. Without a fault it resets the failures of its gate."""
        task = reply.task_id
        gate = self.records[task].order.by_name[reply.step].gate
        before = self.checks.failing(gate)
        self.replying[task] += 1
        await self.on_some_host(lambda host: host.receivers.reply(reply))
        self.replying[task] -= 1
        if before is not None and not self.intensity:
            self.cover(task, "reply after failures")
            self.require(self.checks.failing(gate) != before, f"{gate}: a reply did not reset its failures")

    def request(self, agent: str, request: AgentRequest) -> None:
        """Put a request into the queue of an Agent, sometimes twice."""
        step = self.records[request.task_id].step(request.step)
        call = Call(
            task=request.task_id,
            step=request.step,
            direction=request.direction,
            effect_key=request.effect_key,
            request=step.operation(request.direction).request or to_json(request.request).decode(),
            complete_by=request.complete_by,
            start_id=request.start_id,
            epoch=request.epoch,
            idempotent=request.idempotent,
            is_look_up=request.kind is RequestKind.FIND,
        )
        is_same = from_json(call.request) == request.request or call.task in self.table.damaged
        self.require(is_same, f"{call.effect_key}: another request")
        self.check_call(call)
        for _ in range(2 if self.strikes("request twice", 0.05) else 1):
            serve = self.services.serve_look_up if call.is_look_up else self.services.serve
            self.spawn(serve(agent, request, call))

    # Durable instances

    def start_instance(self, message: RunRequest) -> None:
        """Start a Durable instance, unless it is running."""
        if message.id not in self._instances:
            self._instances.add(message.id)
            self.spawn(self._instance(message.id))

    async def _instance(self, name: str) -> None:
        class Context:
            def get_input(self) -> str:
                return name

            def call_activity(self, activity: str, given: str) -> tuple[str, str]:
                return activity, given

        orchestrator = scheduler(Context())
        activity = next(orchestrator)
        while not self.strikes("instance lost", 0.02):
            self.require(activity == ("run_agents", name), f"{name}: calls {activity}")
            if self.strikes("activity twice", 0.05):
                self.spawn(self._activity(name))
            progress = await self._activity(name)
            if self.intensity and asyncio.get_running_loop().time() < self.services.no_queue_until:
                break  # the instance is lost while its request cannot be sent
            self.cover(name.partition(".")[0], f"run returned {progress}")
            try:
                activity = orchestrator.send(progress)
            except StopIteration:
                break
        self._instances.discard(name)

    async def _activity(self, name: str) -> str:
        async def work(host: Host) -> str:
            self.log(f"run {name} on {host.name}")
            _RUN_NAME.set(f"{name} {self.new_id()}")
            began = asyncio.get_running_loop().time()
            progress = await host.runs.run_agents(name)
            seconds = asyncio.get_running_loop().time() - began
            most = self.run_seconds + (_FAULTY_RUN if self.intensity else _RUN)
            self.require(seconds < most, f"{name}: a run of {seconds} s")
            for call in self._answered.pop(_RUN_NAME.get(), ()):
                self._check_recorded(call)
            self.log(f"run {name} on {host.name}: {progress}")
            return progress

        return str(await self.on_some_host(work, wait=self.random.choice([3, 60])))

    # Calls

    def check_call(self, call: Call) -> None:
        """Check that the start of a call is on record, with the request that is sent.

        The record of a task with a corrupt row is not known.
        """
        if call.task in self.table.damaged:
            return
        order, operation = self.records[call.task].order, self._operation(call)
        self.require(operation.number is not None, f"{call.effect_key}: called without a record")
        self.require(operation.request == call.request, f"{call.effect_key}: not the request on record")
        item = order.by_name[call.step].item
        given = None if item is None else from_json(order.payload)["items"][item]
        is_own = call.is_look_up or from_json(call.request).get("item", given) == given
        self.require(is_own, f"{call.effect_key}: the request of another item")

    def _operation(self, call: Call) -> Operation:
        return self.records[call.task].step(call.step).operation(call.direction)

    def _check_recorded(self, call: Call) -> None:
        """Check that a run which ended before the deadline of an answered call has recorded the outcome."""
        operation = self._operation(call)
        is_open = operation.state is OperationState.RUNNING and operation.start_id == call.start_id
        is_lost = is_open and self.now() < call.complete_by - _SKEW and call.task not in self.table.damaged
        self.require(not is_lost, f"{call.effect_key}: its outcome is not recorded")

    async def call_agent(self, host: Host, agent: str, call: Call) -> str:
        """Call a service, and check the limits of calls that are under way at once."""
        run, limit = _RUN_NAME.get(), self.calls_at_once.get(agent, _NO_LIMIT)
        places = (run, (host, agent))
        self._calls.update(places)
        try:
            self.require(self._calls[run] <= self.steps_at_once, f"{run}: too many calls at once")
            self.require(self._calls[host, agent] <= limit, f"{host.name}: too many calls of {agent}")
            result = await self._call_agent(host, agent, call)
            self.require(self.now() < call.complete_by + _SKEW, f"{call.effect_key}: called too late")
            self._answered[run].append(call)
            return result
        finally:
            self._calls.subtract(places)

    async def _call_agent(self, host: Host, agent: str, call: Call, *, is_retry: bool = False) -> str:
        """Call a service; a call may arrive when its caller has crashed, and an answer may be lost."""
        await host.cross("call")
        self.require(not call.is_look_up, f"{call.effect_key}: called instead of looked up")
        if not is_retry:
            caller = self._callers.setdefault(call.start_id, _RUN_NAME.get())
            self.require(caller == _RUN_NAME.get(), f"{call.effect_key}: the start of {caller} is called")
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
                    return await self._call_agent(host, agent, call, is_retry=True)
                except RefusedError as error:
                    raise RefusedError(str(error), has_unanswered=True) from error
            raise ConnectionError("no answer")
        result = await self.services.call(call)
        await host.alive()
        if self.strikes("answer lost", 0.06):
            raise ConnectionError("no answer")
        await host.cross("answer")
        return result


class DefectHandler(logging.Handler):
    """Adds the product's log to the story. An error in it that is no fault of the world is a violation."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Examine one entry of the log."""
        self._world.log(f"log: {record.getMessage()}")
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        is_defect = error is not None and not isinstance(error, StorageError | TimeoutError)
        is_named = any(f" {name}: " in record.getMessage() for name in _DEFECTS)
        self._world.require(not is_defect and not is_named, f"defect: {record.getMessage()}: {error!r}")


_DEFECTS = ("KeyError", "AttributeError", "TypeError", "IndexError", "AssertionError", "UnwritableRowsError")
