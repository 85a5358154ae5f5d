"""What all links have in common: assembling what a client sends, and sending within a client's credit."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from servicebus_local.broker.queue import Queue
from servicebus_local.errors import MessageMalformed, MessageTooLarge, Refused

from . import replies
from .performatives import Attach, Disposition, Flow, Transfer
from .values import AmqpError

if TYPE_CHECKING:
    from .channel import Channel

#: Messages that a client may send before the broker renews its credit; renewed at half.
_CREDIT = 1000
_UINT32 = 0xFFFFFFFF


class Link:
    """One direction between a client and a node."""

    def __init__(self, channel: Channel, attach: Attach, queue: Queue | None = None) -> None:
        self.channel = channel
        self.handle = attach.handle
        #: The queue that is in use while the link is attached.
        self.queue = queue
        if queue is not None:
            queue.attached()
        self.closed = False
        self.delivery_count = 0
        #: Address of the node, lower-case.
        self.address = ""

    def close(self) -> None:
        """Take note that the link is gone."""
        if not self.closed and self.queue is not None:
            self.queue.detached()
        self.closed = True


@dataclass(frozen=True, slots=True)
class Delivery:
    """A whole message from a client."""

    delivery_id: int
    message_format: int
    #: The client wants no outcome.
    settled: bool
    payload: bytes


@dataclass(slots=True)
class _Assembly:
    first: Transfer
    data: bytearray


class IncomingLink(Link, ABC):
    """The client sends, the broker receives."""

    def __init__(self, channel: Channel, attach: Attach, queue: Queue | None = None) -> None:
        super().__init__(channel, attach, queue)
        self._assembly: _Assembly | None = None
        self._credit = _CREDIT

    def grant_credit(self) -> None:
        """Let the client send."""
        self._credit = _CREDIT
        self.channel.flow(self, _CREDIT)

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Take a frame of a message, and the message when it is complete."""
        delivery = self._assemble(transfer, payload)
        if delivery is None:
            return
        self.delivery_count = (self.delivery_count + 1) & _UINT32
        self._credit -= 1
        if self._credit < _CREDIT // 2:
            self.grant_credit()
        try:
            if len(delivery.payload) > replies.MAX_MESSAGE_BYTES:
                raise MessageTooLarge(
                    f"The received message (size:{len(delivery.payload)} bytes) exceeds the limit "
                    f"({replies.MAX_MESSAGE_BYTES} bytes) currently allowed on the link."
                )
            self.take(delivery)
        except AmqpError as error:
            self.refuse(delivery, MessageMalformed(str(error)))
        except Refused as refusal:
            self.refuse(delivery, refusal)

    def accept(self, delivery: Delivery) -> None:
        """Tell the client that its message is taken."""
        if not delivery.settled and not self.closed:
            self.channel.disposition(delivery.delivery_id, replies.ACCEPTED, from_receiver=True)

    def refuse(self, delivery: Delivery, refusal: Refused) -> None:
        """Tell the client that its message is not taken."""
        if not delivery.settled and not self.closed:
            state = replies.rejected(replies.error(refusal.condition, str(refusal)))
            self.channel.disposition(delivery.delivery_id, state, from_receiver=True)

    @abstractmethod
    def take(self, delivery: Delivery) -> None:
        """Deal with a whole message. Raises Refused or AmqpError."""

    def _assemble(self, transfer: Transfer, payload: bytes) -> Delivery | None:
        assembly, self._assembly = self._assembly, None
        if transfer.aborted:
            return None
        if assembly is None and not transfer.more:
            return _delivery(transfer, payload)
        assembly = assembly or _Assembly(transfer, bytearray())
        if len(assembly.data) <= replies.MAX_MESSAGE_BYTES:  # what is refused anyway is not collected
            assembly.data += payload
        if transfer.more:
            self._assembly = assembly
            return None
        return _delivery(assembly.first, bytes(assembly.data))


def _delivery(first: Transfer, payload: bytes) -> Delivery:
    if first.delivery_id is None:
        raise AmqpError("the first transfer of a delivery must have an id")
    return Delivery(first.delivery_id, first.message_format, first.settled, payload)


class OutgoingLink(Link):
    """The broker sends, the client receives."""

    def __init__(self, channel: Channel, attach: Attach, queue: Queue | None = None) -> None:
        super().__init__(channel, attach, queue)
        self.credit = 0
        #: Where the client wants answers, if the link is for answers.
        self.target_address = attach.target.address

    def on_flow(self, flow: Flow) -> None:
        """Take new credit; a drain uses up what can not be used at once (AMQP 1.0 §2.6.7)."""
        self.credit = flow.delivery_count + flow.link_credit - self.delivery_count
        if self.credit > 0:
            self.on_credit()
        if flow.drain:
            self.delivery_count += max(0, self.credit)
            self.credit = 0
        if flow.drain or flow.echo:
            self.answer_flow(flow.drain)

    def use_credit(self) -> None:
        """Count a message that is about to be sent."""
        self.credit -= 1
        self.delivery_count += 1

    def answer_flow(self, drain: bool) -> None:  # noqa: FBT001 - also called with positions, behind a commit
        """Tell the client the credit that is left."""
        if not self.closed:
            self.channel.flow(self, max(0, self.credit), drain=drain)

    def on_credit(self) -> None:
        """Send what waits for credit."""

    def on_outcome(self, delivery_id: int, disposition: Disposition) -> bool:
        """Take the client's verdict on an unsettled delivery, and say whether it is settled now."""
        raise NotImplementedError(f"delivery {delivery_id} was sent settled: {disposition}")


class AnswerLink(OutgoingLink):
    """Carries the answers of `$cbs` and of a management node."""

    def answer(self, message: bytes) -> None:
        """Send an answer, settled."""
        if not self.closed:
            self.use_credit()
            self.channel.transfer(self, uuid.uuid4().bytes, message, settled=True)
