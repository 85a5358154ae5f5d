"""Random histories of tasks: real writers, runs, Agents and Supervisors, on rows with faults and killed processes."""

from __future__ import annotations

import asyncio
import random as chance
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from functions.agents.queued import QueuedAgent
from functions.pattern.agent_messages import AgentReply, AgentRequest
from functions.pattern.completion import complete
from functions.pattern.decisions import in_question
from functions.pattern.definition import Json, Registry, Workflow
from functions.pattern.epochs import FINAL
from functions.pattern.errors import IllegalTransitionError, PermanentError, TransientError, UnusableAnswerError
from functions.pattern.events import Cancelled, FoundDone, FoundNotDone, Refused, Resubmitted, UndoRequested
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.ports import AgentCall
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, EpochEnd, ProcessState, StepState, Way
from functions.pattern.store_ports import Index, IndexEntry, IndexPage
from functions.pattern.supervision import SupervisionPolicy
from functions.scheduler.progress import RunInput
from functions.scheduler.run_steps import RunLimits, RunSteps
from functions.scheduler.takers import ReplyTaker
from functions.store.announcing import Announcer
from functions.store.keys import index_row
from functions.store.state_store import TableStateStore
from functions.store.task_writer import TaskWriter
from functions.supervisor.damage import Damage
from functions.supervisor.silence import Silence
from functions.supervisor.sweep import Sweep
from tests.fakes.agent_requests import MemoryAgentRequests
from tests.fakes.chance import Least
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.supervision import MemoryOutbox, Queues, RecordedDamage, RecordedHeartbeats, RecordedRequests
from tests.fakes.tasks import pending
from tests.fakes.times import MemoryTimes, RecordedRefusals, RecordedSilences
from tests.fakes.workflows import TASK
from tests.unit.store.rows import Fault, MemoryRows

POLICY = SupervisionPolicy(
    threshold=3,
    extended_waits=(timedelta(seconds=20),),
    skew=timedelta(seconds=2),
    start_within=timedelta(seconds=15),
)


class Index_:
    """The index, as the rows have it."""

    shards = 1

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows

    async def page(self, index: Index, shard: int, *, since: Any = None, until: Any = None, after: Any = None, most: int) -> IndexPage:
        record = self._rows.record(TASK)
        own = [key for key in self._rows.entities if key.startswith(("!due|", "!parked|", "!done|", "!error|"))]
        is_in = index_row(record.task).startswith(f"{index}|")
        if index is Index.DUE:
            is_in = is_in and (until is None or record.task.due_at < until)
        return IndexPage((self._entry(record),) if is_in and own else (), None)

    async def parked(self, workflow: str, version: int, shard: int, *, after: Any, most: int) -> IndexPage:
        record = self._rows.record(TASK)
        is_in = record.task.parked_for == f"{workflow}|{version}"
        return IndexPage((self._entry(record),) if is_in else (), None)

    @staticmethod
    def _entry(record: TaskRecord) -> IndexEntry:
        order = record.order
        return IndexEntry(task=TASK, at=record.task.due_at, workflow=order.workflow, state=record.task.process_state,
                          submitted_at=order.submitted_at, version=order.workflow_version)


class SkewedClock(FakeClock):
    """A clock that goes ahead of another, or behind."""

    def __init__(self, true: FakeClock, seconds: float) -> None:
        super().__init__()
        self._true, self._by = true, timedelta(seconds=seconds)

    def now(self) -> Any:
        return self._true.now() + self._by


class World:
    """One task, and all that happens to it."""

    def __init__(self, seed: int, flow: Workflow, others: tuple[Workflow, ...] = (), *, kills: bool = True, skew: float = 0) -> None:
        self.kills, self.skew = kills, skew
        self.random = chance.Random(seed)
        self.flow, self.others = flow, others
        self.clock = FakeClock()
        self.rows = MemoryRows(pending(flow))
        self.effects: Counter[str] = Counter()  # do's at the service, by effect key
        self.undone: Counter[str] = Counter()
        self.tombs: set[str] = set()
        self.hung: list[asyncio.Event] = []
        self.requests: list[tuple[str, AgentRequest]] = []
        self.replies: list[AgentReply] = []
        self.agent_rows = MemoryAgentRequests()
        self.healed = False
        self.tasks: list[asyncio.Task[Any]] = []
        self.numbers: Counter[int] = Counter()
        self.ids = iter(range(1, 10**9))
        self.not_done_answers: Counter[str] = Counter()
        self.known: list[tuple[str, bool]] = []
        self.log: list[str] = []
        self.errors: list[str] = []
        self.cancelled_with_202 = False
        self.processes = [self._process(flow, *others), self._process(*(others or (flow,)))]

    def _process(self, *deployed: Workflow) -> dict[str, Any]:
        registry = Registry(deployed, {})
        new_id = lambda: f"{next(self.ids):032d}"  # noqa: E731
        clock = SkewedClock(self.clock, self.random.uniform(-self.skew, self.skew)) if self.skew and not self.healed else self.clock
        writer = TaskWriter(self.rows, clock=clock, new_id=lambda: f"{next(self.ids):08d}",
                            complete=partial(complete, registry), random=Least())
        queues = Queues()
        announcer = Announcer(writer, announcements=queues, requests=RecordedRequests(), clock=clock)
        store = TableStateStore(self.rows, writer, announcer)  # type: ignore[arg-type]
        ports = fake_ports(store=store, clock=clock, agent_messages=self, index=Index_(self.rows), outbox=MemoryOutbox(),
                           announcements=queues, heartbeats=RecordedHeartbeats(), times=MemoryTimes(),
                           rejected=RecordedRejections(), agent_requests=self.agent_rows, new_id=new_id)
        agents = {step.agent: self for of in deployed for step in of.steps}
        bounds = RunLimits(at_once=16, seconds=60, start_within=15)
        return {
            "deployed": deployed, "store": store,
            "runs": RunSteps(ports, agents, registry, bounds),
            "taker": ReplyTaker(ports, bounds, RecordedRefusals().alert),
            "sweep": Sweep(ports, POLICY, registry, "s", Damage(ports, RecordedDamage().alert),
                           silence=Silence(ports, RecordedSilences().alert)),
            "queued": {name: QueuedAgent(name, self, ports, function_timeout=60) for name in agents},
            "tasks": [],
        }

    # The Agents' messages, and the Agents.
    async def ask(self, agent: str, request: AgentRequest) -> None:
        if not self.healed and self.random.random() < 0.1:
            if self.random.random() < 0.5:
                self.requests.append((agent, request))
            raise TransientError("no queue")
        self.requests.append((agent, request))

    async def reply(self, reply: AgentReply) -> None:
        if not self.healed and self.random.random() < 0.1:
            raise TransientError("no queue")
        self.replies.append(reply)

    async def do(self, call: AgentCall) -> Json:
        key = call.effect_key.removesuffix("/do")
        for _ in range(self.random.randrange(3)):
            await asyncio.sleep(0)
        fate = 0.0 if self.healed else self.random.random()
        if fate > 0.95:
            raise TransientError("nothing was done, and nobody knows")
        if fate > 0.9:
            self.known.append((call.effect_key, False))
            raise PermanentError("shop answered 402")
        if fate > 0.6:
            gate = asyncio.Event()
            self.hung.append(gate)
            await gate.wait()
        if key in self.tombs:
            raise PermanentError("shop answered 409: undone")
        self.effects[call.effect_key] += 1
        for _ in range(self.random.randrange(3)):
            await asyncio.sleep(0)
        if 0.5 < fate < 0.55:
            raise TransientError("shop answered 504")
        if 0.4 < fate < 0.44:
            self.known.append((call.effect_key, True))
            raise UnusableAnswerError("shop answered what is no JSON")
        self.known.append((call.effect_key, True))
        return {"done": key}

    async def undo(self, call: AgentCall) -> None:
        await asyncio.sleep(0)
        key = call.effect_key.removesuffix("/undo")
        if not self.healed and self.random.random() < 0.2:
            raise TransientError("shop answered 503")
        self.tombs.add(key)
        self.undone[key] += 1

    # What happens.
    @property
    def record(self) -> TaskRecord:
        return self.rows.record(TASK)

    def _do(self, process: dict[str, Any], work: Any) -> None:
        async def guarded() -> None:
            try:
                await work
            except TransientError:
                pass
            except IllegalTransitionError as error:
                self.errors.append(f"illegal: {error}")
            except Exception as error:  # noqa: BLE001
                self.errors.append(f"{type(error).__name__}: {error}")

        task = asyncio.create_task(guarded())
        process["tasks"].append(task)
        self.tasks.append(task)

    async def act(self) -> None:
        """Do one thing at random."""
        process = self.random.choice(self.processes)
        choice = self.random.choices(
            ["run", "again", "clock", "sweep", "operator", "cancel", "go", "request", "reply", "fault", "kill", "turn"],
            [10, 4, 6, 6, 4, 0.4, 8, 10, 10, 4, 1.2, 10],
        )[0]
        self.log.append(f"{choice} {self.processes.index(process)}")
        task = self.record.task
        match choice:
            case "run":
                self.numbers[task.epoch] += 1
                self._run(process, task.epoch, self.numbers[task.epoch])
            case "again" if self.numbers:
                epoch = self.random.choice(list(self.numbers))
                self._run(process, epoch, self.random.randint(1, self.numbers[epoch]))
            case "clock":
                self.clock.advance(self.random.choice([1, 3, 9, 16, 25]))
            case "sweep":
                self._do(process, process["sweep"].run())
            case "operator":
                await self._operate(process)
            case "cancel":
                event = Cancelled(who="carla", reason="no", by_operator=self.random.random() < 0.5, start_by=self.clock.now() + timedelta(seconds=15))
                self._do(process, self._cancel(process, event))
            case "go" if self.hung:
                self.hung.pop(self.random.randrange(len(self.hung))).set()
            case "request" if self.requests:
                self._deliver(process)
            case "reply" if self.replies:
                self._reply(process)
            case "fault" if not self.healed:
                self.rows.faults.append(self.random.choice([Fault.BUSY, Fault.LOST, Fault.REPEATED, Fault.LATE, None]))
                if self.random.random() < 0.3:
                    self.rows.arrive()
            case "kill" if self.kills:
                self._kill(process)
            case _:
                pass
        for _ in range(self.random.randrange(8)):
            await asyncio.sleep(0)

    async def _cancel(self, process: dict[str, Any], event: Cancelled) -> None:
        outcome = await process["store"].change(TASK, event)
        if not isinstance(outcome, Refused):
            self.cancelled_with_202 = True

    def _kill(self, process: dict[str, Any]) -> None:
        number = self.processes.index(process)
        for task in process["tasks"]:
            task.cancel()
        for worker in process["store"]._writer._workers.values():
            worker.cancel()
        self.processes[number] = self._process(*process["deployed"])

    def _run(self, process: dict[str, Any], epoch: int, number: int) -> None:
        self._do(process, process["runs"].run(RunInput(task=TASK, epoch=epoch, number=number, share=self.random.random() < 0.3)))

    def _deliver(self, process: dict[str, Any]) -> None:
        place = self.random.randrange(len(self.requests))
        agent, request = self.requests[place]
        if self.healed or self.random.random() < 0.7:
            self.requests.pop(place)
        if agent in process["queued"]:
            self._do(process, self._take_request(process, agent, request))

    async def _take_request(self, process: dict[str, Any], agent: str, request: AgentRequest) -> None:
        try:
            await process["queued"][agent].take("m", request.model_dump_json().encode())
        except TransientError:
            self.requests.append((agent, request))  # it comes again

    def _reply(self, process: dict[str, Any]) -> None:
        place = self.random.randrange(len(self.replies))
        reply = self.replies[place]
        if self.healed or self.random.random() < 0.8:
            self.replies.pop(place)
        self._do(process, self._take(process, reply, 0))

    async def _take(self, process: dict[str, Any], reply: AgentReply, tries: int) -> None:
        try:
            await process["taker"].take("m", reply.model_dump_json().encode(), RecordedSchedulers())
        except TransientError:
            self.replies.append(reply)  # it comes again
        except IllegalTransitionError:
            if tries > 8:
                raise
            await self._take(process, reply, tries + 1)

    async def _operate(self, process: dict[str, Any]) -> None:
        record = self.record
        if record.task.process_state is not ProcessState.ERROR:
            return
        task = record.task
        common: dict[str, Any] = {"epoch": task.epoch, "who": "olga", "reason": "looked", "start_by": self.clock.now() + timedelta(seconds=15)}
        question = in_question(record)
        if question is not None and (self.healed or self.random.random() < 0.8):
            step = next(each for each in record.steps if each.never_twice or each.state is StepState.UNRECORDED)
            key = f"{record.order.resource}/{step.name}/do"
            if self.effects[key] or step.state is StepState.UNRECORDED:
                event: Any = FoundDone(**common, step=step.name, result=b'{"done":"so"}')
            else:
                event = FoundNotDone(**common, step=step.name)
                self.not_done_answers[key] += 1
        elif self.random.random() < 0.15 and not self.healed:
            event = UndoRequested(**common)
        else:
            event = Resubmitted(**common)
        self._do(process, process["store"].change(TASK, event))

    async def quiet(self) -> None:
        """Let everything come to an end."""
        for _ in range(60):
            for gate in self.hung:
                gate.set()
            self.hung.clear()
            await asyncio.sleep(0)
        if pending_tasks := [task for task in self.tasks if not task.done()]:
            await asyncio.wait(pending_tasks, timeout=5)
        self.tasks = [task for task in self.tasks if not task.done()]

    async def heal(self) -> None:
        """End all faults, and let the task come to rest."""
        self.healed = True
        self.rows.faults.clear()
        self.rows.arrive()
        both = (self.flow, *self.others)
        for process in list(self.processes):
            if process["deployed"] != both:
                self._kill(process)
        self.processes = [self._process(*both)]
        [process] = self.processes
        for _ in range(60):
            await self.quiet()
            while self.requests:
                self._deliver(process)
            await self.quiet()
            while self.replies:
                self._reply(process)
            await self.quiet()
            if self.record.task.process_state in {ProcessState.PROCESSED, ProcessState.COMPENSATED}:
                break
            if self.record.task.process_state is ProcessState.ERROR:
                await self._operate(process)
                await self.quiet()
            epoch = self.record.task.epoch
            self.numbers[epoch] += 1
            self._run(process, epoch, self.numbers[epoch])
            await self.quiet()
            self.clock.advance(12)
            self._do(process, process["sweep"].run())
            await self.quiet()

    def check(self) -> list[str]:
        """Name what does not hold."""
        found = [*self.errors]
        record = self.record
        for step in record.steps:
            key = f"{record.order.resource}/{step.name}/do"
            base = key.removesuffix("/do")
            most = 1 + self.not_done_answers[key]
            if not step.shape.idempotent and self.effects[key] > most:
                found.append(f"{step.name}: {self.effects[key]} effects, {self.not_done_answers[key]} answers 'not done'")
            is_known = any(known == (key, True) for known in self.known)
            kept = {StepState.COMPLETED, StepState.UNDONE, StepState.UNDOING, StepState.UNRECORDED}
            if not self.kills and not step.shape.idempotent and is_known and not (step.state in kept or step.noted):
                found.append(f"{step.name}: known done, and {step.state}")
            if not self.kills and not step.shape.idempotent and self.effects[key] > 1 and not step.noted and [k for k in self.known if k == (key, True)][1:]:
                found.append(f"{step.name}: done {self.effects[key]} times, and nothing is noted")
            if record.task.process_state is ProcessState.COMPENSATED and step.shape.undo and self.effects[key] and not self.undone[base]:
                found.append(f"{step.name}: done, not undone, and Compensated")
            if record.task.process_state is ProcessState.PROCESSED and (not self.effects[key] or self.undone[base]):
                found.append(f"{step.name}: Processed, but {self.effects[key]} effects, {self.undone[base]} undone")
        if record.task.process_state not in {ProcessState.PROCESSED, ProcessState.COMPENSATED}:
            found.append(f"no end: {record.task}, {[(s.name, s.state.value, s.error) for s in record.steps]}")
        if self.cancelled_with_202 and record.task.process_state is ProcessState.PROCESSED:
            found.append("cancelled, and processed")
        recoveries = 0
        for closed in record.history:
            for past in closed.steps:
                shape = record.step(past.name).shape
                if not self.skew and not shape.idempotent and past.state is StepState.RUNNING and past.complete_by is not None and closed.ended_at < past.complete_by:
                    found.append(f"epoch {closed.epoch} ended {closed.ended_by} while {past.name} ran")
            recoveries += closed.ended_by is EpochEnd.RECOVERED
        own = [key for key in self.rows.entities if key.startswith(("!due|", "!parked|", "!done|", "!error|"))]
        if index_row(record.task) not in own:
            found.append(f"index {own} is not {index_row(record.task)}")
        return found


async def one_life(seed: int, flow: Workflow, others: tuple[Workflow, ...] = (), steps: int = 120, **how: Any) -> tuple[World, list[str]]:
    """Run one history."""
    world = World(seed, flow, others, **how)
    for _ in range(steps):
        await world.act()
    await world.heal()
    found = world.check()
    for process in world.processes:
        for task in process["tasks"]:
            task.cancel()
    return world, found
