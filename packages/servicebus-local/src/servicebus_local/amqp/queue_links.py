"""Links to queues: senders, and receivers with or without locks."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from servicebus_local.broker.entity import Entity
from servicebus_local.broker.message import Lock, Message
from servicebus_local.broker.queue import Queue
from servicebus_local.content import parse_batch, parse_content
from servicebus_local.errors import LockLost, Refused

from . import replies
from .links import Delivery, IncomingLink, OutgoingLink
from .performatives import SENDER_SETTLES, Attach, Disposition
from .values import Encoded
from .verdicts import read_verdict
from .wire_message import wire_message

if TYPE_CHECKING:
    from .channel import Channel

#: Message format of a Service Bus batch: each data section holds one encoded message.
BATCH_FORMAT = 0x80013700


class QueueSenderLink(IncomingLink):
    """Takes messages for a queue, and acknowledges them when they are committed."""

    def __init__(self, channel: Channel, attach: Attach, queue: Queue, entity: Entity) -> None:
        super().__init__(channel, attach, queue)
        self._entity = entity

    def take(self, delivery: Delivery) -> None:
        """Enqueue a message, or all messages of a batch. Raises Refused or AmqpError."""
        self._entity.check_busy()
        if delivery.message_format == BATCH_FORMAT:
            contents = parse_batch(delivery.payload)
        else:
            contents = [parse_content(delivery.payload)]
        self._entity.send(contents)
        self._entity.acknowledge(self.accept, delivery)


class QueueReceiverLink(OutgoingLink):
    """Gets messages from a queue or its dead letters; a Receiver in the queue's eyes."""

    def __init__(self, channel: Channel, attach: Attach, queue: Queue, entity: Entity) -> None:
        super().__init__(channel, attach, queue)
        self.deletes_on_delivery = attach.sender_settle_mode == SENDER_SETTLES
        self._entity = entity
        self._locks: dict[int, Lock] = {}

    def on_credit(self) -> None:
        """Ask the queue for messages."""
        self._entity.add_receiver(self)

    def answer_flow(self, drain: bool) -> None:  # noqa: FBT001 - also called with positions, behind a commit
        """Tell the client the credit that is left, behind the messages that wait for their commit."""
        self._entity.after_commit(super().answer_flow, drain)

    def deliver(self, message: Message, lock: Lock | None) -> None:
        """Send a message; its delivery tag is the lock token as a GUID in little-endian order."""
        if self.closed:
            return
        if lock is None:
            self.channel.transfer(self, uuid.uuid4().bytes_le, wire_message(message), settled=True)
            return
        payload = wire_message(message, lock.until_ms)
        self._locks[self.channel.transfer(self, lock.token.bytes_le, payload, settled=False)] = lock

    def on_outcome(self, delivery_id: int, disposition: Disposition) -> bool:
        """Settle a message as the client says, and echo the outcome when it is committed."""
        lock = self._locks[delivery_id]
        settled = True
        try:
            echo = self._settle(lock, disposition)
        except Refused as refusal:
            echo = replies.rejected(replies.error(refusal.condition, str(refusal)))
            # A refused verdict leaves the message locked: the client may give another one.
            settled = isinstance(refusal, LockLost)
        if settled:
            del self._locks[delivery_id]
        if not disposition.settled:
            self._entity.acknowledge(self._echo, delivery_id, echo)
        return settled

    def _settle(self, lock: Lock, disposition: Disposition) -> Encoded:
        verdict = read_verdict(disposition.state)
        if not self._entity.is_held(lock):
            raise LockLost
        self._entity.check_busy()
        self._entity.settle(lock, verdict.outcome, verdict.reason, verdict.description)
        return verdict.echo

    def _echo(self, delivery_id: int, state: Encoded) -> None:
        if not self.closed:
            self.channel.disposition(delivery_id, state, from_receiver=False)
