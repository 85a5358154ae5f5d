"""Links to queues: senders, and receivers with or without locks."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from servicebus_local.amqp import replies
from servicebus_local.amqp.links import IncomingLink, IncomingMessage, LinkChannel, OutgoingLink
from servicebus_local.amqp.performatives import (
    SENDER_SETTLES,
    Attach,
    Disposition,
    Fields,
    Performative,
    described_list,
)
from servicebus_local.amqp.wire_message import wire_message
from servicebus_local.broker.entity import Entity
from servicebus_local.broker.message import Lock, Settlement, StoredMessage, Verdict
from servicebus_local.broker.queue import Queue
from servicebus_local.codec.encoding import encode
from servicebus_local.codec.values import Described, Encoded, Value
from servicebus_local.content import BATCH_FORMAT, parse_batch, parse_content, property_pairs
from servicebus_local.errors import LockLostError, OperationError

_INFO_FIELD = _ANNOTATIONS_FIELD = 2
_REASON, _DESCRIPTION = "DeadLetterReason", "DeadLetterErrorDescription"


@dataclass(frozen=True, slots=True)
class SettlementRequest:
    """The client's settlement, and the outcome that it expects as the answer.

    A different answer raises an exception at the client, and a missing one blocks it for a minute.
    """

    verdict: Verdict
    answer: Encoded


_COMPLETE = SettlementRequest(Verdict(Settlement.COMPLETE), replies.ACCEPTED)
_RELEASE = SettlementRequest(Verdict(Settlement.RELEASE), replies.RELEASED)


def read_settlement(disposition: Disposition) -> SettlementRequest:
    """Read the delivery state; an unknown outcome releases the message. Raises AmqpError."""
    state = disposition.state
    code = state.descriptor if state else None
    if code == Performative.ACCEPTED:
        return _COMPLETE
    if state is not None and code == Performative.REJECTED:
        return _dead_letter(state, disposition)
    if state is not None and code == Performative.MODIFIED:
        return _modified(state, disposition)
    return _RELEASE


def _dead_letter(state: Described, disposition: Disposition) -> SettlementRequest:
    error = Fields(state.fields()).described(0)
    info = Fields(error.fields()).value(_INFO_FIELD) if error else None
    texts = info if isinstance(info, dict) else {}
    properties = {}
    if texts.keys() - {_REASON, _DESCRIPTION}:
        properties = property_pairs(described_list(disposition.encoded_state()[0])[_INFO_FIELD])
        for name in (_REASON, _DESCRIPTION):
            properties.pop(encode(name), None)
    reason, description = _text(texts.get(_REASON)), _text(texts.get(_DESCRIPTION))
    verdict = Verdict(Settlement.DEAD_LETTER, reason, description, properties)
    return SettlementRequest(verdict, replies.REJECTED)


def _modified(state: Described, disposition: Disposition) -> SettlementRequest:
    fields = Fields(state.fields())
    failed, undeliverable_here = bool(fields.value(0)), bool(fields.value(1))
    properties = {}
    if fields.value(_ANNOTATIONS_FIELD):
        properties = property_pairs(disposition.encoded_state()[_ANNOTATIONS_FIELD])
    settlement = Settlement.DEFER if undeliverable_here else Settlement.ABANDON
    answer = replies.modified(delivery_failed=failed, undeliverable_here=undeliverable_here)
    return SettlementRequest(Verdict(settlement, properties=properties), answer)


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None


#: The tag of a message that is deleted: there is no lock.
_NO_TAG = b""
#: Some clients lose messages when thousands arrive at once, even within their credit. So a link sends at most
#: one burst in each pause. A large message counts as several, so that a slow reader buffers few of them.
_LARGE_BYTES = 16 * 1024
_PAUSE_SECONDS = 0.05


class QueueSenderLink(IncomingLink):
    """Receives messages for a queue, and acknowledges them after the commit."""

    ends_when_unused = True

    def __init__(self, channel: LinkChannel, attach: Attach, queue: Queue, entity: Entity) -> None:
        super().__init__(channel, attach, queue)
        self._entity = entity

    def take(self, message: IncomingMessage) -> None:
        """Enqueue a message, or all messages of a batch. Raises OperationError or AmqpError."""
        self._entity.check_busy()
        if message.message_format == BATCH_FORMAT:
            contents = parse_batch(message.payload)
        else:
            contents = [parse_content(message.payload)]
        self._entity.send(contents)
        self._entity.acknowledge(self.accept, message)


class QueueReceiverLink(OutgoingLink):
    """Delivers messages from a queue or its dead letters; the queue sees it as a Receiver."""

    ends_when_unused = True

    def __init__(self, channel: LinkChannel, attach: Attach, queue: Queue, entity: Entity) -> None:
        super().__init__(channel, attach, queue)
        self.deletes_on_delivery = attach.sender_settle_mode == SENDER_SETTLES
        self._entity = entity
        entity.counters["receivers"] += 1
        self._locks: dict[int, Lock] = {}
        #: Remaining messages of the burst, and the start of the next burst (monotonic seconds).
        self._allowance = channel.client.burst
        self._next_burst_at = monotonic() + _PAUSE_SECONDS

    def close(self) -> None:
        """Stop receiving."""
        if not self.closed:
            self._entity.counters["receivers"] -= 1
        super().close()
        self._entity.remove_receiver(self)

    @property
    def ready(self) -> bool:
        """Return whether it can receive a message now."""
        return (
            self.credit > 0
            and self._allowance > 0
            and not self.ending
            and not self.closed
            and self.channel.has_room
        )

    def use_credit(self, size: int = 0) -> None:
        """Count a message of some bytes that is about to be delivered, and pause after a burst."""
        super().use_credit()
        self._allowance -= 1 + size // _LARGE_BYTES
        if self._allowance <= 0:
            self.channel.call_later(self._next_burst_at - monotonic(), self._end_pause)

    def _end_pause(self) -> None:
        self._allowance = self.channel.client.burst
        self._next_burst_at = monotonic() + _PAUSE_SECONDS
        if self.credit > 0 and not self.closed:
            self.on_credit()

    def on_credit(self) -> None:
        """Request messages from the queue."""
        self._entity.add_receiver(self)

    def answer_flow(self, drain: bool) -> None:  # noqa: FBT001 - also a callback, which has no keywords
        """Send the client the remaining credit, after the messages that wait for their commit."""
        self._entity.after_commit(super().answer_flow, drain)

    def deliver(self, message: StoredMessage, lock: Lock | None) -> None:
        """Send a message; its delivery tag is the lock token as a GUID in little-endian order."""
        payload = wire_message(message, lock)
        if lock is None:
            self.channel.transfer(self, _NO_TAG, payload, settled=True)
        else:
            self._locks[self.channel.transfer(self, lock.token.bytes_le, payload, settled=False)] = lock

    def on_outcome(self, delivery_id: int, disposition: Disposition) -> bool:
        """Settle a message with the client's outcome, and answer after the commit."""
        lock = self._locks[delivery_id]
        final = True
        try:
            answer = self._settle(lock, disposition)
        except OperationError as error:
            answer = replies.rejected(replies.error(error.condition, str(error)))
            # After a refused settlement the message stays locked: the client may settle it in another way.
            final = disposition.settled or isinstance(error, LockLostError)
        if final:
            del self._locks[delivery_id]
        if not disposition.settled:
            self._entity.acknowledge(self._answer, delivery_id, answer, final)
        return final

    def _settle(self, lock: Lock, disposition: Disposition) -> Encoded:
        request = read_settlement(disposition)
        if not self._entity.locks.is_held(lock):
            raise LockLostError
        self._entity.check_busy()
        self._entity.settle(lock, request.verdict)
        return request.answer

    def _answer(self, delivery_id: int, state: Encoded, final: bool) -> None:  # noqa: FBT001 - a callback
        if not self.closed:
            settled = final or self.channel.client.expects_settled
            self.channel.disposition(delivery_id, state, from_receiver=False, settled=settled)
