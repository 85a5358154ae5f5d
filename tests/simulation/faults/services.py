"""What goes wrong inside the services: with messages, orchestrations and rows."""

from __future__ import annotations

from tests.simulation.bus.messages import QueuedMessage
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.run.platform import Platform

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

    async def lose_index_row(self) -> None:
        """Have an index row be gone."""
        for partition in self._platform.tables.tables["Tasks"].partitions.values():
            keys = [key for key in partition.keys if key.startswith(_LOSABLE)]
            if keys:
                key = self._chance.choice(keys)
                self._world.fault(SimulatedFault.INDEX_LOST, "tables", key)
                partition.put(key, None)
                self.robbed.add(key.rpartition("|")[2])
