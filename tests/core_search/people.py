"""Callers who submit, send events and cancel, and operators who act on tasks and gates."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from functions.core.derive import questions
from functions.core.record import Direction, OperationState, TaskRecord
from functions.core.rules import admit
from functions.core.task_events import (
    Answered,
    Cancelled,
    Canceller,
    Event,
    EventReceived,
    Rejection,
    Resubmitted,
    Resumed,
    Suspended,
    UndoRequested,
    Verdict,
)
from tests.core_search.drawn import AGENTS, DrawnTask
from tests.core_search.host import NoSuchTaskError, StoreError
from tests.core_search.services import Effect

if TYPE_CHECKING:
    from tests.core_search.host import Host
    from tests.core_search.world import World

_WHO: dict[str, Any] = {"who": "op", "reason": "because"}


class People:
    """The callers and operators of one seed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._verdicts: dict[tuple[str, str], Event] = {}

    def start(self) -> None:
        """Start all callers, operators, deployments and crashes."""
        world = self._world
        for task, drawn in world.definitions.tasks.items():
            world.spawn(self._submit(task, drawn))
        world.spawn(self._disturb())
        self._disturb_agents()

    async def _submit(self, task: str, drawn: DrawnTask) -> None:
        """Submit an order, sometimes twice; send its events; sometimes cancel it."""
        random = self._world.random
        await asyncio.sleep(random.uniform(0, 30))

        async def insert(host: Host) -> None:
            workflow = host.registry.find(drawn.workflow.name)
            if workflow is None:
                raise StoreError
            payload, now = drawn.payload.model_dump_json(), host.now()
            order = workflow.new_order(task, "r", payload, now, finders=drawn.finders, reply_to="replies")
            await host.insert(admit(order, now, host.settings))

        for _ in range(2 if random.random() < 0.2 else 1):
            await self._world.on_some_host(insert)
        for name, delay in drawn.events.items():
            self._world.spawn(self._send_event(task, name, delay))
        if random.random() < 0.2:
            await asyncio.sleep(random.uniform(0, 120))
            await self._record(task, Cancelled(by=Canceller.CALLER, who="caller", reason="changed my mind"))

    async def _send_event(self, task: str, name: str, delay: float) -> None:
        """Send an event; while the version of the task is missing, send it again later."""
        received = EventReceived(step=name, body='{"n":"event"}', who="somebody")
        await asyncio.sleep(delay)
        while await self._record(task, received) is Rejection.NOT_DEPLOYED:
            self._world.cover(task, "event for a missing version")
            await asyncio.sleep(10)

    async def _record(self, task: str, event: Event) -> Rejection | None:
        applied = await self._world.on_some_host(lambda host: host.record(task, event))
        rejection: Rejection | None = applied.rejection
        return rejection

    # Faults

    async def _disturb(self) -> None:
        """Crash hosts, deploy, and let operators act while faults are drawn."""
        world, random = self._world, self._world.random
        while world.is_faulty:
            await asyncio.sleep(random.uniform(5, 40))
            if not world.is_faulty:
                return
            if world.hosts and world.strikes("crash", 0.3):
                world.crash(random.choice(world.hosts))
            if world.hosts and world.strikes("deployment", 0.5):
                world.deployment += 1
                world.spawn(self._deploy())
            if world.records and world.strikes("operator", 0.6):
                stopped = sorted(task for task, record in world.records.items() if record.error is not None)
                is_chosen = stopped and random.random() < 0.7
                task = random.choice(stopped if is_chosen else sorted(world.records))
                world.spawn(self.operate(task, is_final=False))

    async def _deploy(self) -> None:
        """Remove a workflow from one host or from all hosts for a while."""
        world, random = self._world, self._world.random
        name = random.choice(list(world.definitions.workflows))
        hosts = list(world.hosts) if random.random() < 0.4 else [random.choice(world.hosts)]
        for host in hosts:
            host.registry.missing.add(name)
        await asyncio.sleep(random.uniform(5, 200))
        for host in hosts:
            host.registry.missing.discard(name)

    def _disturb_agents(self) -> None:
        """Let services fail and queue Agents be away or slow for a while, and hold gates."""
        world, random, services = self._world, self._world.random, self._world.services
        for agent in AGENTS:
            is_queue = agent.startswith("q")
            if random.random() < (0.5 if is_queue else 0.3):
                start = random.uniform(0, 60)
                services.outages[agent] = (start, start + random.uniform(10, 900 if world.intensity else 300))
                if random.random() < 0.5:
                    random.choice([services.refusing, services.hanging]).add(agent)
                services.troubled.add(agent)
            if random.random() < 0.2:
                services.troubled.add(agent)
                gate = f"queue:{agent}" if is_queue else agent
                world.spawn(self._hold(gate, random.uniform(0, 60), random.uniform(30, 1500)))
            if is_queue and random.random() < 0.4:
                services.troubled.add(agent)
                world.spawn(services.slow_down(agent, random.uniform(0, 60), random.uniform(30, 120)))
            if is_queue and not world.intensity:
                world.spawn(world.checks.check_returned(agent))

    async def _hold(self, gate: str, delay: float, seconds: float) -> None:
        world, holds = self._world, self._world.checks.holds[gate]
        await asyncio.sleep(delay)
        await world.on_some_host(lambda host: host.gates.hold(gate))
        holds.append((world.now(), None))
        world.log(f"-- {gate} held")
        await asyncio.sleep(seconds)
        holds[-1] = (holds[-1][0], world.now())
        await world.on_some_host(lambda host: host.gates.end_hold(gate))
        world.log(f"-- {gate} no longer held")

    # Operators

    async def operate(self, task: str, *, is_final: bool) -> None:
        """Act on a task as an operator who finds out the truth. A verdict is sometimes repeated late."""
        world, random = self._world, self._world.random
        record = world.records[task]
        if record.suspension is not None:
            await self._record(task, Resumed(by_operator=True))
        elif record.error is None:
            if not is_final and random.random() < 0.3:
                await self._record(task, Suspended(reason="wait", by_operator=True))
            elif not is_final and random.random() < 0.2:
                await self._record(task, Cancelled(by=Canceller.OPERATOR, **_WHO))
        else:
            action = self._action(record, is_final=is_final)
            if action is not None:
                await self._record(task, action)
                if random.random() < 0.4:
                    world.spawn(self._repeat(task, action))

    async def _repeat(self, task: str, action: Event) -> None:
        await asyncio.sleep(self._world.random.uniform(1, 400))
        try:
            await self._record(task, action)
        except NoSuchTaskError:
            return

    def _action(self, record: TaskRecord, *, is_final: bool) -> Event | None:
        """Return an operator's action on a task in `Error`, None to wait."""
        random, seen = self._world.random, {**_WHO, "epoch": record.epoch}
        open_steps = questions(record)
        if open_steps:
            return self._verdict(record, open_steps[0], seen)
        if record.direction is Direction.UNDO:
            verdict = self._undo_verdict(record, seen)
            if verdict is not None and random.random() < 0.8:
                return verdict
            return Resubmitted(**seen)
        refused = [step for step in record.steps.values() if step.do.state is OperationState.REFUSED]
        refused.sort(key=lambda step: -step.do.unknown_starts)
        chance = 0.8 if refused and refused[0].do.unknown_starts and not is_final else 0.4
        if refused and random.random() < chance:
            return Resubmitted(rebuild=refused[0].name, **seen)
        if refused and random.random() < 0.3:
            self._world.checks.by_operator.add((record.order.task, refused[0].name))
            return Answered(step=refused[0].name, verdict=Verdict.DONE, result='{"n":"hand"}', **seen)
        return Resubmitted(**seen) if random.random() < 0.5 else UndoRequested(**seen)

    def _verdict(self, record: TaskRecord, name: str, seen: dict[str, Any]) -> Event | None:
        """Return the true verdict on an unknown outcome; while a call is in flight, wait."""
        world, task = self._world, record.order.task
        generation = record.step(name).generation(Direction.DO)
        key = record.order.effect_key(name, Direction.DO, generation)
        do, spec = record.do(name), record.order.by_name[name]
        if world.services.in_flight[key]:
            return None
        is_missing = do.state is OperationState.DONE_WITHOUT_RESULT
        if is_missing and spec.idempotent and world.random.random() < 0.2:
            return Resubmitted(**seen)
        earlier = self._verdicts.get((task, name))
        if earlier is not None and world.random.random() < 0.5:
            return earlier  # of another page that shows the earlier question
        world.checks.by_operator.add((task, name))
        effect = world.services.effects.get(key)
        if is_missing or (effect is not None and effect.done and not effect.undone):
            return Answered(step=name, verdict=Verdict.DONE, result='{"n":"hand"}', **seen)
        not_done = Answered(step=name, verdict=Verdict.NOT_DONE, **seen)
        self._verdicts[task, name] = not_done
        return not_done

    def _undo_verdict(self, record: TaskRecord, seen: dict[str, Any]) -> Event | None:
        """Undo a refused step by hand, in all generations, and return the verdict."""
        world = self._world
        for name, step in record.steps.items():
            if step.undo.state is OperationState.REFUSED:
                world.checks.by_operator.add((record.order.task, name))
                for number in range(len(step.dispatched)):
                    key = record.order.effect_key(name, Direction.DO, number)
                    world.services.effects[key] = Effect("", undone=True)
                verdict = world.random.choice([Verdict.UNDONE, Verdict.LEFT])
                return Answered(step=name, verdict=verdict, **seen)
        return None
