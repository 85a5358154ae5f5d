"""Callers who submit, send events and cancel, and operators who act on tasks and gates."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from functions.core.derive import questions
from functions.core.record import (
    UNDOING_ENDS,
    Direction,
    Message,
    MessageKind,
    NotDeployedError,
    OperationState,
    StepType,
    TaskRecord,
)
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
from functions.storage.row_keys import TaskIndex, shard_of, sortable
from functions.storage.table_contract import Row, RowChange
from tests.simulation.drawn import AGENTS, DrawnTask, gate_of
from tests.simulation.services import Effect

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.world import World

_WHO: dict[str, Any] = {"who": "op", "reason": "because"}


class People:
    """The callers and operators of one seed. `recording` counts the actions that are not recorded yet."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.recording = 0
        self._verdicts: dict[tuple[str, str], Event] = {}
        self._corrupt: tuple[str, Row, str] | None = None

    def start(self) -> None:
        """Start all callers, operators, deployments and crashes."""
        world = self._world
        for task, drawn in world.definitions.tasks.items():
            world.spawn(self._submit(task, drawn))
            if world.random.random() < 0.2:
                world.spawn(self._compete(task, drawn))
        world.spawn(self._disturb())
        self._disturb_agents()

    async def _submit(self, task: str, drawn: DrawnTask) -> None:
        """Submit an order, sometimes twice; send its events; sometimes cancel it."""
        random = self._world.random
        await asyncio.sleep(random.uniform(0, 30))

        for _ in range(2 if random.random() < 0.2 else 1):
            await self._world.intake.submit(task, drawn)
        for name, delay in drawn.events.items():
            self._world.spawn(self.send_event(task, name, delay))
        if random.random() < 0.2:
            self.recording += 1
            await asyncio.sleep(random.uniform(0, 120))
            await self._record(task, Cancelled(by=Canceller.CALLER, who="caller", reason="changed my mind"))
            self.recording -= 1

    async def _compete(self, task: str, drawn: DrawnTask) -> None:
        """Submit an order of another caller or a hub under the same id, or reserve an id and send nothing."""
        random, intake = self._world.random, self._world.intake
        await asyncio.sleep(random.uniform(0, 30))
        match random.randrange(3):
            case 0:
                await intake.submit(task, drawn, "rival")
            case 1:
                await intake.publish(task, drawn)
            case _:
                await intake.reserve_only("gone", drawn)

    async def send_event(self, task: str, name: str, delay: float) -> None:
        """Send an event; while the version of the task is missing, it is sent again."""
        await asyncio.sleep(delay)

        async def send(host: Host) -> None:
            event = EventReceived(step=name, body='{"n":"event"}', who="somebody")
            applied = await host.record(task, event)
            if applied.rejection is Rejection.NOT_DEPLOYED:
                self._world.cover(task, "event for a missing version")
                raise NotDeployedError(task)
            is_kept = applied.rejection is not None or applied.record.step(name).event is not None
            self._world.require(is_kept, f"{task}: an event for a missing version is lost")
            decision, is_over = applied.record.decision, applied.rejection is Rejection.FINISHED
            goes_on = decision is not None and decision.end not in UNDOING_ENDS
            self._world.require(not (is_over and goes_on), f"{task}: goes on without its event")

        await self._world.on_some_host(send)

    async def _record(self, task: str, event: Event) -> None:
        self.recording += 1
        await self._world.on_some_host(lambda host: host.record(task, event))
        self.recording -= 1

    # Faults

    async def _disturb(self) -> None:
        """Crash hosts, deploy, and let operators act while faults are drawn."""
        world, random = self._world, self._world.random
        while world.is_faulty:
            await asyncio.sleep(random.uniform(4, 30))
            if not world.is_faulty:
                return
            if world.hosts and world.strikes("crash", 0.3):
                world.crash(random.choice(world.hosts))
            if world.strikes("table throttled", 0.15):
                world.throttled_until = asyncio.get_running_loop().time() + random.uniform(1, 15)
            if world.records and world.strikes("row damaged", 0.1):
                self._corrupt_row(random.choice(sorted(world.records)))
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

    def _corrupt_row(self, task: str) -> None:
        """Make a row of a task corrupt, or change its index rows."""
        world, random, record = self._world, self._world.random, self._world.records[task]
        partition = shard_of(task, world.shards)
        is_alone = record.order.parent is None and all(
            spec.type is not StepType.WORKFLOW for spec in record.order.specs
        )
        if task in world.table.damaged or task in world.table.without_index:
            return
        if is_alone and not world.table.damaged and random.random() < 0.5:
            rows = world.table.record_rows(partition, task)
            places = [(row, name) for row in rows for name in ("Facts", "Do", "Steps") if name in row]
            row, column = random.choice(places)
            self._corrupt = partition, row, column
            world.table.damaged.add(task)
            world.table.put(partition, RowChange("upsert", row["RowKey"], {**row, column: "{"}))
            world.log(f"** row {row['RowKey']} is corrupt")
            return
        world.table.without_index.add(task)
        if random.random() < 0.5:
            keys = sorted(world.table.index[task])
            world.table.put(partition, *(RowChange("delete", key) for key in keys))
        else:
            past = sortable(world.start)
            index = random.choice([f"{TaskIndex.DONE}|{10**18 - 1}", f"{TaskIndex.DUE}|{past}"])
            listed = {"OrderID": task, "Workflow": "w", "WorkflowVersion": 1, "Submitter": ""}
            row = {**listed, "SubmittedAt": world.start.isoformat()}
            world.table.put(partition, RowChange("upsert", f"{index}|{task}", row))
        world.log(f"** index of {task} is damaged: {sorted(world.table.index[task])}")

    def repair(self) -> None:
        """Repair the damaged row, unless it was replaced meanwhile."""
        table = self._world.table
        if self._corrupt is not None:
            partition, row, column = self._corrupt
            key, task = row["RowKey"], row["RowKey"].partition("|")[0]
            now = table.rows[partition, key]
            if now.get(column) == "{":
                table.put(partition, RowChange("upsert", key, {**now, column: row[column]}))
            stored = table.stored(partition, task)
            self._world.require(stored is not None, f"{task}: not repaired")
            if stored is not None:
                self._world.records[task] = stored.record
            table.damaged.clear()

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
                world.spawn(self._hold(gate_of(agent), random.uniform(0, 60), random.uniform(30, 1500)))
            if is_queue and random.random() < 0.4:
                services.troubled.add(agent)
                world.spawn(services.slow_down(agent, random.uniform(0, 60), random.uniform(30, 120)))
            if is_queue and not world.intensity:
                world.spawn(world.checks.check_returned(agent))

    async def _hold(self, gate: str, delay: float, seconds: float) -> None:
        world, holds = self._world, self._world.checks.holds[gate]
        await asyncio.sleep(delay)
        await world.on_some_host(lambda host: host.gates.hold(gate, "maintenance", "op"))
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
                world.spawn(self._repeat_ends_of_children(task))

    async def _repeat(self, task: str, action: Event) -> None:
        await asyncio.sleep(self._world.random.uniform(1, 400))
        await self._record(task, action)

    async def _repeat_ends_of_children(self, task: str) -> None:
        """Deliver the ends of earlier children again, while a later child runs or is undone."""
        world, order = self._world, self._world.records[task].order
        for name, step in self._world.records[task].steps.items():
            for child in (order.child(name, number) for number in range(len(step.earlier_dos))):
                if order.by_name[name].type is StepType.WORKFLOW and child in world.records:
                    await asyncio.sleep(world.random.uniform(0.1, 10))
                    end = Message(
                        kind=MessageKind.CHILD_ENDED, id=f"again {child}", task=child, at=world.now()
                    )
                    await world.deliver(end)

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
