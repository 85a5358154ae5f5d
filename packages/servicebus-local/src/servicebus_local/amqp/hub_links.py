"""Links to event hubs: senders of events, and readers of one partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from servicebus_local.amqp.links import IncomingLink, IncomingMessage, LinkChannel, OutgoingLink
from servicebus_local.amqp.performatives import Attach
from servicebus_local.broker.timers import now_ms
from servicebus_local.codec.encoding import encode, long, timestamp
from servicebus_local.codec.values import Encoded
from servicebus_local.content import BATCH_FORMAT
from servicebus_local.errors import LinkStolenError
from servicebus_local.hubs.event import Event, parse_event, parse_events, with_delivery_annotations
from servicebus_local.hubs.hub import Hub
from servicebus_local.hubs.partition import Partition
from servicebus_local.hubs.readers import Readers


class Cursor:
    """Returns events one after the other, and calls `wake` when new events follow after the last one."""

    def __init__(self, partition: Partition, first: int, wake: Callable[[], object]) -> None:
        self.partition = partition
        self._next = first
        self._wake = wake
        self._chunk: deque[Event] = deque()
        self._reading = False
        partition.watchers.add(wake)

    def close(self) -> None:
        """Return no more events, and stop calling `wake`."""
        self.partition.watchers.discard(self._wake)
        self._chunk.clear()
        self._reading = True

    def take(self) -> Event | None:
        """Return the next event, or None if there is none yet or the read from the log is pending."""
        if not self._chunk and not self._reading:
            self._fill()
        return self._chunk.popleft() if self._chunk else None

    def _fill(self) -> None:
        partition = self.partition
        self._next = max(self._next, partition.begin)  # skip the events that retention has dropped
        if self._next >= partition.committed:
            return
        recent = partition.recent(self._next)
        if recent is not None:
            self._add(recent)
            return
        self._reading = True
        partition.read_older(self._next, self._on_read)

    def _on_read(self, events: list[Event]) -> None:
        if self._wake not in self.partition.watchers:
            return
        self._reading = False
        self._add(events)
        if events or self._next < self.partition.begin:
            self._wake()

    def _add(self, events: list[Event]) -> None:
        self._chunk.extend(events)
        if events:
            self._next = events[-1].sequence_number + 1


#: Requests the number of the newest event with each event.
RUNTIME_METRIC = "com.microsoft:enable-receiver-runtime-metric"
_EPOCH = "com.microsoft:epoch"
#: The same for all events: the client for Python never discards a tag.
_TAG = b"\0"
#: Events that are sent on a link before the other links are served.
_BURST = 250


class HubSenderLink(IncomingLink):
    """Receives events for a hub, or for one partition of it, and acknowledges them after the commit."""

    max_message_bytes = 1 << 20
    ends_when_unused = True

    def __init__(self, channel: LinkChannel, attach: Attach, hub: Hub, partition: int | None) -> None:
        super().__init__(channel, attach, hub)
        self._hub = hub
        self._partition = partition

    def take(self, message: IncomingMessage) -> None:
        """Append an event, or all events of a batch. Raises OperationError or AmqpError."""
        self._hub.check_busy()
        if message.message_format == BATCH_FORMAT:
            contents, key = parse_events(message.payload)
        else:
            content, key = parse_event(message.payload)
            contents = [content]
        self._hub.append(contents, key, self._partition)
        self._hub.after_commit(partial(self.accept, message))


@dataclass(frozen=True, slots=True)
class ReadingPlace:
    """A reader's partition, its fellow readers, and its first sequence number."""

    partition: Partition
    readers: Readers
    first: int


class HubReceiverLink(OutgoingLink):
    """Sends the events of a partition, settled: readers do not settle events."""

    def __init__(self, channel: LinkChannel, attach: Attach, hub: Hub, place: ReadingPlace) -> None:
        """Attach a reader. Raises OperationError if it is not allowed to read."""
        epoch = attach.properties.get(_EPOCH)
        self.epoch = epoch if isinstance(epoch, int) else None
        self._readers = place.readers
        self._readers.admit(self)
        super().__init__(channel, attach, hub)
        self._partition = place.partition
        self._tracks = RUNTIME_METRIC in attach.desired_capabilities
        self.capabilities = [RUNTIME_METRIC] if self._tracks else []
        self._cursor = Cursor(place.partition, place.first, self._send)

    def close(self) -> None:
        """Stop reading."""
        super().close()
        self._cursor.close()
        self._readers.remove(self)

    def end(self, detach: Callable[[], object]) -> None:
        """Detach at once, so that others can read: it has no pending commit."""
        self._readers.remove(self)
        super().end(detach)

    def displace(self, error: LinkStolenError) -> None:
        """Detach it, because another reader has connected."""
        self.channel.detach(self, error.condition, str(error))

    def on_credit(self) -> None:
        """Send the events that wait for credit."""
        self._send()

    def _send(self) -> None:
        for _ in range(_BURST):
            if self.credit <= 0 or self.ending or self.closed or not self.channel.has_room:
                return
            event = self._cursor.take()
            if event is None:
                return
            self.use_credit()
            payload = self._tracked(event) if self._tracks else event.wire
            self.channel.transfer(self, _TAG, payload, settled=True)
        self.channel.call_later(0, self._send)

    def _tracked(self, event: Event) -> bytes:
        partition = self._partition
        newest = [
            ("last_enqueued_sequence_number", long(partition.last_number)),
            ("last_enqueued_offset", Encoded(encode(str(partition.last_offset)))),
            ("last_enqueued_time_utc", timestamp(partition.last_enqueued_ms)),
            ("runtime_info_retrieval_time_utc", timestamp(now_ms())),
        ]
        return with_delivery_annotations(event.wire, newest)
