"""The host's trigger: takes messages off a queue, has a function process them, and settles them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tests.simulation.bus.namespace import Namespace, QueuedMessage
from tests.simulation.hosts.host import Host, QueueTrigger, Running
from tests.simulation.world.world import AnswerLostFault, BusyFault, NotSentFault, Place, World

#: As `host.json` sets them: messages of one batch, and seconds of one function.
_BATCH = 40
_LONGEST = 300
#: Seconds at most for which the messages of a batch are collected.
_COLLECTED_FOR = 0.5


class Triggers:
    """Delivers the messages of all queues to the hosts that are up."""

    def __init__(self, world: World, namespace: Namespace, running: Running) -> None:
        self._world = world
        self._namespace = namespace
        self._running = running
        self._triggers: Mapping[str, QueueTrigger] = {}
        #: From which queues each host takes: its versions may have other Agents than another's.
        self._queues: dict[str, Collection[str]] = {}
        self._collecting: set[str] = set()
        namespace.poke = self._poke
        running.on_start(self._started)

    @property
    def names(self) -> Sequence[str]:
        """Name the queues that a function takes from."""
        return list(self._triggers)

    def _started(self, host: Host) -> None:
        own = {each.queue: each for each in host.queue_triggers}
        self._triggers = {**self._triggers, **own}
        self._queues[host.name] = own.keys()
        for queue in own:
            self._poke(queue)

    def _poke(self, queue: str) -> None:
        trigger = self._triggers.get(queue)
        if trigger is None or not trigger.is_batch:
            self._take(queue)
        elif queue not in self._collecting:
            self._collecting.add(queue)
            seconds = self._world.chance("batches").uniform(0, _COLLECTED_FOR)
            self._world.loop.call_later(seconds, self._take, queue)

    def _take(self, queue: str) -> None:
        self._collecting.discard(queue)
        trigger = self._triggers.get(queue)
        while trigger is not None and (host := self._host_for(queue)) is not None:
            taken = self._namespace.take(queue, _BATCH if trigger.is_batch else 1)
            if not taken:
                return
            self._deliver(trigger, host, taken)

    def _host_for(self, queue: str) -> Host | None:
        return self._running.any("hosts of queues", lambda host: queue in self._queues[host.name])

    def _deliver(self, trigger: QueueTrigger, host: Host, taken: Sequence[QueuedMessage]) -> None:
        deliveries = [each.deliveries for each in taken]
        lock = self._namespace.queues[trigger.queue].rules.lock
        self._world.tell(host.name, f"takes {' '.join(str(each.message_id) for each in taken)}")

        def ended(task: asyncio.Task[None]) -> None:
            """Let the locks of a host that crashed expire: it had renewed them lately."""
            if task.cancelled() or task.exception() is not None:
                rest = self._world.chance("locks").uniform(0.5, 1) * lock
                for message, delivery in zip(taken, deliveries, strict=True):
                    self._namespace.release(trigger.queue, message, delivery, rest)

        host.run(self._process(trigger, host, taken, deliveries)).add_done_callback(ended)

    async def _process(
        self, trigger: QueueTrigger, host: Host, taken: Sequence[QueuedMessage], deliveries: Sequence[int]
    ) -> None:
        given: Any = list(taken) if trigger.is_batch else taken[0]
        try:
            async with asyncio.timeout(_LONGEST):
                await host.call(trigger.function, {trigger.parameter: given})
        except Exception as error:  # noqa: BLE001 - whatever a function raises, the host gives back
            self._world.tell(host.name, f"{trigger.function} raised {type(error).__name__}: {error}")
            await self._settle(
                host, f"abandon {taken[0].message_id}", lambda: self._abandon(trigger, taken, deliveries)
            )
            return
        names = " ".join(str(each.message_id) for each in taken)
        await self._settle(host, f"complete {names}", lambda: self._complete(trigger, taken, deliveries))

    async def _settle(self, host: Host, what: str, act: Callable[[], None]) -> None:
        """Settle; what could not be settled comes again when its lock is over."""
        try:
            await host.seam(Place.BUS).carry_out(what, act)
        except (NotSentFault, AnswerLostFault, BusyFault) as fault:
            raise TimeoutError(str(fault)) from fault

    def _complete(
        self, trigger: QueueTrigger, taken: Sequence[QueuedMessage], deliveries: Sequence[int]
    ) -> None:
        for message, delivery in zip(taken, deliveries, strict=True):
            self._namespace.complete(trigger.queue, message, delivery)

    def _abandon(
        self, trigger: QueueTrigger, taken: Sequence[QueuedMessage], deliveries: Sequence[int]
    ) -> None:
        for message, delivery in zip(taken, deliveries, strict=True):
            self._namespace.release(trigger.queue, message, delivery)
