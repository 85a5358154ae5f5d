"""Where the client of Service Bus stands, as one host uses it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    MessagingEntityNotFoundError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
)

from functions.messages.queues import dead_letter_queue
from tests.simulation.bus.messages import QueuedMessage
from tests.simulation.bus.namespace import Namespace
from tests.simulation.bus.receiver import SimulatedReceiver
from tests.simulation.faults.kinds import SimulatedFault
from tests.simulation.hosts.seam import Seam
from tests.simulation.world.fate import AnswerLostFault, BusyFault, NotSentFault
from tests.simulation.world.world import START, World

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
