"""The base of all links: assembles a client's messages, and sends within the client's credit."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from servicebus_local.amqp import replies
from servicebus_local.amqp.client_kinds import ClientKind
from servicebus_local.amqp.performatives import Attach, Disposition, Flow, Transfer
from servicebus_local.codec.values import AmqpError, Encoded
from servicebus_local.errors import MessageFormatError, MessageTooLargeError, OperationError

#: Messages that a client may send before the broker renews its credit; renewed at half.
_CREDIT = 1000
_UINT32 = 0xFFFFFFFF


class Node(Protocol):
    """The part of a queue or hub that its links use."""

    def after_commit(self, callback: Callable[[], object], /) -> None:
        """Run a callback after the commit of all earlier writes."""


class LinkChannel(Protocol):
    """The part of a channel that its links use."""

    @property
    def links(self) -> Sequence[Link]:
        """All links of the channel."""

    def transfer(self, link: OutgoingLink, tag: bytes, payload: bytes, *, settled: bool) -> int:
        """Send a message, and return its delivery id."""

    def flow(self, link: Link, credit: int, *, drain: bool = False) -> None:
        """Send a link's credit."""

    @property
    def has_room(self) -> bool:
        """Return whether a frame can be sent: the client's window is open, the socket's buffer not full."""

    @property
    def client(self) -> ClientKind:
        """The kind of the client."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Schedule a callback."""

    def disposition(
        self, delivery_id: int, state: Encoded, *, from_receiver: bool, settled: bool = True
    ) -> None:
        """Send the outcome of a delivery."""

    def detach(self, link: Link, condition: str, text: str) -> None:
        """Close a link with an error."""


class Link:
    """One direction between a client and a node."""

    #: Whether it is detached when it is idle.
    ends_when_unused = False
    #: Largest accepted message in bytes, in either direction.
    max_message_bytes = replies.NO_LIMIT
    #: Extensions of the protocol that the client requested and the broker supports.
    capabilities: Sequence[str] = ()

    def __init__(self, channel: LinkChannel, attach: Attach, node: Node | None = None) -> None:
        self.channel = channel
        self.handle = attach.handle
        #: The queue or hub that the link uses.
        self.node = node
        #: The client has requested its end: it accepts no new messages.
        self.ending = False
        self.closed = False
        #: Time of the last frame in either direction (monotonic seconds).
        self.used_at = monotonic()
        self.delivery_count = 0
        #: Address of the node, lower-case.
        self.address = ""

    def end(self, detach: Callable[[], object]) -> None:
        """Detach when all operations of the link are committed and answered."""
        self.ending = True
        if self.node is None:
            detach()
        else:
            self.node.after_commit(detach)

    def close(self) -> None:
        """Stop sending on the link."""
        self.closed = True


@dataclass(frozen=True, slots=True)
class IncomingMessage:
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

    max_message_bytes = replies.MAX_MESSAGE_BYTES

    def __init__(self, channel: LinkChannel, attach: Attach, node: Node | None = None) -> None:
        super().__init__(channel, attach, node)
        self._assembly: _Assembly | None = None
        self._credit = _CREDIT

    def grant_credit(self) -> None:
        """Send credit to the client."""
        self._credit = _CREDIT
        self.channel.flow(self, _CREDIT)

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Receive one frame of a message, and process the message when it is complete."""
        message = self._assemble(transfer, payload)
        if message is None:
            return
        self.delivery_count = (self.delivery_count + 1) & _UINT32
        self._credit -= 1
        if self._credit < _CREDIT // 2:
            self.grant_credit()
        try:
            check_size(message.payload, self.max_message_bytes)
            self.take(message)
        except AmqpError as error:
            self.refuse(message, MessageFormatError(str(error)))
        except OperationError as error:
            self.refuse(message, error)

    def accept(self, message: IncomingMessage) -> None:
        """Notify the client that its message is accepted."""
        if not message.settled and not self.closed:
            self.channel.disposition(message.delivery_id, replies.ACCEPTED, from_receiver=True)

    def refuse(self, message: IncomingMessage, error: OperationError) -> None:
        """Notify the client that its message is refused."""
        if not message.settled and not self.closed:
            state = replies.rejected(replies.error(error.condition, str(error)))
            self.channel.disposition(message.delivery_id, state, from_receiver=True)

    @abstractmethod
    def take(self, message: IncomingMessage) -> None:
        """Process a whole message. Raises OperationError or AmqpError."""

    def _assemble(self, transfer: Transfer, payload: bytes) -> IncomingMessage | None:
        assembly, self._assembly = self._assembly, None
        if transfer.aborted:
            return None
        if assembly is None and not transfer.more:
            return _message(transfer, payload)
        assembly = assembly or _Assembly(transfer, bytearray())
        if len(assembly.data) <= self.max_message_bytes:  # a larger message is refused, so not collected
            assembly.data += payload
        if transfer.more:
            self._assembly = assembly
            return None
        return _message(assembly.first, bytes(assembly.data))


def check_size(message: bytes, limit: int = replies.MAX_MESSAGE_BYTES) -> None:
    """Raise MessageTooLargeError for a message above `limit` bytes."""
    if len(message) > limit:
        raise MessageTooLargeError(
            f"The received message (size:{len(message)} bytes) exceeds the limit "
            f"({limit} bytes) currently allowed on the link."
        )


def _message(first: Transfer, payload: bytes) -> IncomingMessage:
    if first.delivery_id is None:
        raise AmqpError("the first transfer of a delivery must have an id")
    return IncomingMessage(first.delivery_id, first.message_format, first.settled, payload)


class OutgoingLink(Link):
    """The broker sends, the client receives."""

    def __init__(self, channel: LinkChannel, attach: Attach, node: Node | None = None) -> None:
        super().__init__(channel, attach, node)
        self.credit = 0
        #: The client's address for answers, if the link is for answers.
        self.target_address = attach.target.address

    def on_flow(self, flow: Flow) -> None:
        """Receive new credit; a drain consumes the rest at once (AMQP 1.0 §2.6.7)."""
        self.credit = flow.delivery_count + flow.link_credit - self.delivery_count
        if self.credit > 0:
            self.on_credit()
        if flow.drain:
            self.delivery_count += max(0, self.credit)
            self.credit = 0
        if flow.drain or flow.echo:
            self.answer_flow(flow.drain)

    def use_credit(self, size: int = 0) -> None:  # noqa: ARG002 - for links that count bytes too
        """Count a message that is about to be sent."""
        self.credit -= 1
        self.delivery_count += 1

    def answer_flow(self, drain: bool) -> None:  # noqa: FBT001 - also a callback, which has no keywords
        """Send the client the remaining credit."""
        if not self.closed:
            self.channel.flow(self, max(0, self.credit), drain=drain)

    def on_credit(self) -> None:
        """Send the messages that wait for credit."""

    def on_outcome(self, delivery_id: int, disposition: Disposition) -> bool:
        """Process the client's outcome for an unsettled delivery, and return whether it is settled now."""
        raise NotImplementedError(f"delivery {delivery_id} was sent settled: {disposition}")


class AnswerLink(OutgoingLink):
    """Carries the answers of `$cbs` and of a management node."""

    def answer(self, message: bytes) -> None:
        """Send an answer, settled."""
        if not self.closed:
            self.use_credit()
            self.channel.transfer(self, uuid.uuid4().bytes, message, settled=True)
