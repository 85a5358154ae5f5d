"""The simulated Service Bus client, with its receivers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
)

from functions.messages.queues import dead_letter_queue
from tests.simulation.bus.namespace import Namespace, QueuedMessage
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.hosts.host import Seam
from tests.simulation.world.world import START, AnswerLostFault, BusyFault, NotSentFault, World


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


_FOR_EVER = 1e12


class SimulatedSender:
    """Sends to one queue."""

    def __init__(self, world: World, namespace: Namespace, seam: Seam, queue: str) -> None:
        self._world = world
        self._namespace = namespace
        self._seam = seam
        self._queue = queue

    async def send_messages(
        self, sent: ServiceBusMessage | Sequence[ServiceBusMessage], **_options: object
    ) -> None:
        """Send some messages, all of them or none. Raises as the client does."""
        messages = sent if isinstance(sent, Sequence) else [sent]
        queued = [self._queued(each) for each in messages]
        what = f"send to {self._queue}: {' '.join(str(each.message_id) for each in queued)}"
        try:
            await self._seam.carry_out(what, lambda: self._accept(queued))
        except (NotSentFault, AnswerLostFault) as fault:
            raise ServiceBusConnectionError(message=str(fault)) from fault
        except BusyFault as fault:
            raise ServiceBusServerBusyError(message=str(fault)) from fault

    def _accept(self, messages: Sequence[QueuedMessage]) -> None:
        if self._queue in self._namespace.gone:
            self._world.fault(SimulatedFault.NOTICES_GONE, self._queue)
            raise MessagingEntityNotFoundError
        for each in messages:
            self._namespace.accept(self._queue, each, delay=self._namespace.delay(self._queue, each))

    def _queued(self, sent: ServiceBusMessage) -> QueuedMessage:
        now = self._world.loop.time()
        later = sent.scheduled_enqueue_time_utc
        begin = now if later is None else max(now, _virtual(later))
        properties = {
            str(name): value.decode() if isinstance(value, bytes) else value
            for name, value in (sent.application_properties or {}).items()
        }
        return QueuedMessage(
            body=b"".join(sent.body),
            message_id=sent.message_id,
            subject=sent.subject,
            correlation_id=sent.correlation_id,
            application_properties=properties,
            available_at=begin,
            expires_at=_FOR_EVER if sent.time_to_live is None else begin + sent.time_to_live.total_seconds(),
        )


class SimulatedBusClient:
    """Gives senders and receivers."""

    def __init__(self, world: World, namespace: Namespace, seam: Seam) -> None:
        self._world = world
        self._namespace = namespace
        self._seam = seam

    def get_queue_sender(self, queue: str) -> SimulatedSender:
        """Give the sender of a queue."""
        return SimulatedSender(self._world, self._namespace, self._seam, queue)

    def get_queue_receiver(
        self, queue: str, *, sub_queue: ServiceBusSubQueue | None = None, **_options: object
    ) -> SimulatedReceiver:
        """Give the receiver of a queue, or of its dead letters."""
        name = queue if sub_queue is None else dead_letter_queue(queue)
        return SimulatedReceiver(self._world, self._namespace, self._seam, name)


def _virtual(time: datetime) -> float:
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - START).total_seconds()
