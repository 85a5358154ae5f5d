"""Where the client's receivers stand, as one host uses them: to look at messages without taking them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace

from azure.servicebus import ServiceBusMessageState
from azure.servicebus.exceptions import ServiceBusConnectionError, ServiceBusServerBusyError

from tests.simulation.bus.namespace import Namespace
from tests.simulation.hosts.seam import Seam
from tests.simulation.world.fate import AnswerLostFault, BusyFault, NotSentFault
from tests.simulation.world.world import START, World


class SimulatedReceiver:
    """Peeks at one queue."""

    def __init__(self, world: World, namespace: Namespace, seam: Seam, queue: str) -> None:
        self._world = world
        self._namespace = namespace
        self._seam = seam
        self._queue = queue

    async def peek_messages(self, most: int, *, sequence_number: int) -> Sequence[SimpleNamespace]:
        """Give some messages from a number on. Raises as the client does."""
        what = f"peek at {self._queue} from {sequence_number}"
        try:
            return await self._seam.carry_out(what, lambda: self._seen(most, sequence_number))
        except (NotSentFault, AnswerLostFault) as fault:
            raise ServiceBusConnectionError(message=str(fault)) from fault
        except BusyFault as fault:
            raise ServiceBusServerBusyError(message=str(fault)) from fault

    async def close(self) -> None:
        """Let go of the connection, of which there is none."""

    def _seen(self, most: int, number: int) -> Sequence[SimpleNamespace]:
        states, now = ServiceBusMessageState, self._world.loop.time()
        there = [each for each in self._namespace.queues[self._queue].messages if each.number >= number]
        return [
            SimpleNamespace(
                sequence_number=each.number,
                state=states.ACTIVE if each.available_at <= now else states.SCHEDULED,
                enqueued_time_utc=START + timedelta(seconds=each.available_at),
            )
            for each in sorted(there, key=lambda each: each.number)[:most]
        ]
