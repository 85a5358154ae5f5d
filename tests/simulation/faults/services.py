"""The simulated services, and how they are called."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.bus.namespace import QueuedMessage
from tests.simulation.drawn.load import PLAIN, DrawnOrder
from tests.simulation.drawn.workflows import AGENTS
from tests.simulation.faults.kinds import FaultPlan, FaultyFates, SimulatedFault
from tests.simulation.remotes.ledger import RemoteCall
from tests.simulation.remotes.service import Manner
from tests.simulation.run.platform import Platform
from tests.simulation.run.rows import BAD
from tests.simulation.tables.rows import Partition, StoredRow
from tests.simulation.world.world import World

_FAILING = (Manner.FAILING, Manner.FAILING, Manner.THROTTLED, Manner.HANGING, Manner.GARBLED)
#: The part of calls that take long.
_SLOW_PART = 0.4
_SILENT = (Manner.DONE_AND_FAILING, Manner.LATE)


class Manners:
    """Decides of each call."""

    def __init__(
        self, world: World, plan: FaultPlan, fates: FaultyFates, orders: Sequence[DrawnOrder]
    ) -> None:
        self._world = world
        self._chance = chance = world.chance("manners")
        self._plan = plan
        self._fates = fates
        self._refused = {(each.id, each.refused) for each in orders if each.refused is not None}
        self._down = chance.choice(AGENTS) if plan.has(SimulatedFault.REMOTE_DOWN) else None
        self._undo_refused = {
            (each.id, chance.choice(each.workflow.steps).name)
            for each in orders
            if each.id != PLAIN and plan.has(SimulatedFault.UNDO_REFUSED)
        }

    def of(self, call: RemoteCall) -> Manner:
        """Decide; what was drawn for an order stays so when all is healed."""
        if not self._fates.is_healed:
            if call.agent == self._down:
                self._world.met(SimulatedFault.REMOTE_DOWN)
                return Manner.FAILING
            for kind, manners in (
                (SimulatedFault.REMOTES, _FAILING),
                (SimulatedFault.REMOTES_SILENT, _SILENT),
            ):
                if self._plan.has(kind) and self._chance.random() < 6 * self._plan.rate:
                    self._world.met(kind)
                    return self._chance.choice(manners)
            if self._plan.has(SimulatedFault.REMOTES_SLOW) and self._chance.random() < _SLOW_PART:
                self._world.met(SimulatedFault.REMOTES_SLOW)
                call.takes = self._chance.uniform(1, 14)
        is_refused = (call.task, call.step_name) in (self._undo_refused if call.is_undo else self._refused)
        if is_refused and call.is_undo:
            self._world.met(SimulatedFault.UNDO_REFUSED)
        return Manner.REFUSED if is_refused else Manner.DONE


_FOR_EVER = 1e12
_POISON = (b"", b"{", b"\xff\xfe", b'"text"', b'{"schema_version": 99}', b"[" * 5_000)
#: Rows by which a sweep finds what is due; without them, only the full sweep does.
_LOSABLE = "!due|"


class ServiceFaults:
    """Each method has one fault happen, if there is anything that it can happen to."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._world = platform.world
        self._chance = platform.world.chance("service faults")
        #: Tasks of which an index row was taken away.
        self.robbed: set[str] = set()
        self._damaged = 0

    async def deliver_again(self) -> None:
        """Have messages that are being processed come once more, soon or late."""
        for queue in self._platform.namespace.queues.values():
            if queue.dead is None or not queue.messages:
                continue
            message = self._chance.choice(queue.messages)
            self._world.fault(SimulatedFault.DUPLICATES, queue.name, str(message.message_id))
            self._platform.namespace.deliver_again(queue.name, message, self._chance.choice((0, 1, 30, 120)))

    async def lose_lock(self) -> None:
        """Have messages come again while they are processed."""
        for queue in self._platform.namespace.queues.values():
            for message in list(queue.messages):
                if message.locked is not None and self._chance.random() < 0.5:
                    self._world.fault(SimulatedFault.LOCKS_LOST, queue.name, str(message.message_id))
                    self._platform.namespace.release(queue.name, message, message.locked)

    async def poison(self) -> None:
        """Put what nobody can read on a queue."""
        queues = [each for each in self._platform.triggers.names if "/" not in each]
        if not queues:
            return
        queue = self._chance.choice(queues)
        body = self._chance.choice(_POISON)
        name = f"poison-{self._world.loop.time():.3f}"
        self._world.fault(SimulatedFault.POISON, queue, name)
        now = self._world.loop.time()
        self._platform.namespace.accept(queue, QueuedMessage(body, name, None, None, {}, now, _FOR_EVER))

    async def lose_history(self) -> None:
        """Have an orchestration be gone."""
        live = [each for each in self._platform.hub.instances.values() if not each.has_ended]
        if live:
            lost = self._chance.choice(live)
            self._world.fault(SimulatedFault.HISTORY_LOST, "durable", lost.id)
            self._platform.hub.forget(lost.id)

    async def stick(self) -> None:
        """Have an orchestration get no episode any more."""
        live = [each for each in self._platform.hub.instances.values() if not each.has_ended]
        if live:
            stuck = self._chance.choice(live)
            self._world.fault(SimulatedFault.STUCK, "durable", stuck.id)
            stuck.is_stuck = True

    async def kill_message(self) -> None:
        """Have a message die."""
        namespace = self._platform.namespace
        for queue in self._chance.sample(sorted(namespace.queues), len(namespace.queues)):
            there = namespace.queues[queue]
            free = [each for each in there.messages if each.locked is None]
            if free and there.dead is not None and there.dead.name in self._platform.triggers.names:
                message = self._chance.choice(free)
                self._world.fault(SimulatedFault.DEAD_LETTERS, queue, str(message.message_id))
                namespace.bury(there, message, "MaxDeliveryCountExceeded")
                return

    async def damage(self) -> None:
        """Put rows beside those of a task that nobody can read: of its state, or of an index."""
        for partition in self._platform.tables.tables["Tasks"].partitions.values():
            keys = [each for each in partition.keys if each.startswith(_LOSABLE) and f"|{BAD}" not in each]
            if keys:
                self._damage(partition, self._chance.choice(keys))
                return

    def _damage(self, partition: Partition, key: str) -> None:
        self._damaged += 1
        bad, task = f"{BAD}{self._damaged}", key.rpartition("|")[2]
        copied = f"{key.removesuffix(task)}{bad}"
        self._world.fault(SimulatedFault.BAD_ROWS, "tables", copied)
        there = partition.rows[key]
        index = {**there.properties, "RowKey": copied, "OrderID": bad}
        if self._chance.random() < 0.5:
            index["Workflow"], index["Workflow@odata.type"] = "7", "Edm.Int64"
        partition.put(copied, StoredRow(index, 'W/"bad"', there.changed_at))
        for part in ("order", "task"):
            row = {**partition.rows[f"{task}|{part}"].properties, "RowKey": f"{bad}|{part}"}
            row |= {"OrderID": bad, "ProcessState": "Nonsense"} if part == "task" else {}
            partition.put(row["RowKey"], StoredRow(row, 'W/"bad"', there.changed_at))

    async def lose_index_row(self) -> None:
        """Have an index row be gone."""
        for partition in self._platform.tables.tables["Tasks"].partitions.values():
            keys = [each for each in partition.keys if each.startswith(_LOSABLE) and f"|{BAD}" not in each]
            if keys:
                key = self._chance.choice(keys)
                self._world.fault(SimulatedFault.INDEX_LOST, "tables", key)
                partition.put(key, None)
                self.robbed.add(key.rpartition("|")[2])
