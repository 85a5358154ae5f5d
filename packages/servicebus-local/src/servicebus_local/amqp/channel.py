"""An AMQP session: its links, its two windows, and the link of each delivery.

It is called a channel here because "session" means something else in Service Bus.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Protocol

from servicebus_local.amqp import replies
from servicebus_local.amqp.attaching import make_link
from servicebus_local.amqp.client_kinds import ClientKind
from servicebus_local.amqp.links import IncomingLink, Link, OutgoingLink
from servicebus_local.amqp.performatives import Attach, Disposition, Fields, Flow, Performative, Transfer
from servicebus_local.codec.values import Encoded
from servicebus_local.errors import OperationError
from servicebus_local.namespace import Namespace

#: Space for the performative before a frame's part of a message, in bytes.
_TRANSFER_OVERHEAD = 80
_UINT32 = 0xFFFFFFFF

type Handler = Callable[[Fields, bytes, int, int], None]


class ChannelConnection(Protocol):
    """The part of a connection that its channels use."""

    #: Largest frame that the client accepts, in bytes.
    max_frame_bytes: int
    #: The socket's buffer is not full.
    has_room: bool
    client: ClientKind
    #: A link was attached at some time.
    had_link: bool

    def send(self, channel: int, body: bytes) -> None:
        """Send a frame on the channel with this number."""


class Channel:
    """One session of a connection."""

    def __init__(
        self, connection: ChannelConnection, number: int, namespace: Namespace, begin: Fields
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._number = number
        self._links: dict[int, Link] = {}
        self._unsettled: dict[int, OutgoingLink] = {}
        self._next_delivery_id = replies.FIRST_DELIVERY_ID
        self._next_incoming_id = begin.number(1)
        self._next_outgoing_id = replies.FIRST_DELIVERY_ID
        #: Frames that the client accepts before its next flow.
        self._remote_window = begin.number(2)
        #: Frames that wait for the window, each with its number of window frames.
        self._held_back: deque[tuple[bytes, int]] = deque()
        self.handlers: dict[object, Handler] = {
            Performative.ATTACH: self._on_attach,
            Performative.FLOW: self._on_flow,
            Performative.TRANSFER: self._on_transfer,
            Performative.DISPOSITION: self._on_disposition,
            Performative.DETACH: self._on_detach,
        }

    @property
    def links(self) -> list[Link]:
        """The attached links."""
        return list(self._links.values())

    @property
    def has_room(self) -> bool:
        """Return whether a frame can be sent: the client's window is open, the socket's buffer not full."""
        return self._connection.has_room and not self._held_back

    @property
    def client(self) -> ClientKind:
        """The kind of the client."""
        return self._connection.client

    def close(self) -> None:
        """End the session with all its links."""
        for link in self.links:
            self.remove(link)
        self._unsettled.clear()
        self._held_back.clear()

    # Sending

    def send(self, body: bytes) -> None:
        """Send a frame that does not count against the window."""
        self._connection.send(self._number, body)

    def remove(self, link: Link) -> None:
        """Close a link without a frame."""
        self._links.pop(link.handle, None)
        # A later verdict has no effect; the locks outlive the link.
        self._unsettled = {number: owner for number, owner in self._unsettled.items() if owner is not link}
        link.close()

    def resume(self) -> None:
        """Deliver the frames and messages that had no room."""
        for link in self.links:
            if isinstance(link, OutgoingLink) and link.credit > 0:
                link.on_credit()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        """Schedule a callback."""
        asyncio.get_running_loop().call_later(seconds, callback)

    def transfer(self, link: OutgoingLink, tag: bytes, payload: bytes, *, settled: bool) -> int:
        """Send a message, in several frames if it is large, and return its delivery id."""
        link.used_at = monotonic()
        delivery_id: int = self._next_delivery_id
        self._next_delivery_id += 1
        if not settled:
            self._unsettled[delivery_id] = link
        part = self._connection.max_frame_bytes - _TRANSFER_OVERHEAD
        sent_id: int | None = delivery_id
        for start in range(0, len(payload), part):
            more = start + part < len(payload)
            head = replies.transfer_head(link.handle, sent_id, tag, settled=settled, more=more)
            self._send_in_order(head + payload[start : start + part], window=1)
            sent_id = None
        return delivery_id

    def flow(self, link: Link, credit: int, *, drain: bool = False) -> None:
        """Send a link's credit."""
        numbers = self._next_incoming_id, self._next_outgoing_id, link.handle, link.delivery_count
        self.send(replies.flow(*numbers, credit, drain=drain))

    def disposition(
        self, delivery_id: int, state: Encoded, *, from_receiver: bool, settled: bool = True
    ) -> None:
        """Send the outcome of a delivery."""
        self.send(replies.disposition(delivery_id, state, from_receiver=from_receiver, settled=settled))

    def detach(self, link: Link, condition: str, text: str) -> None:
        """Close a link with an error."""
        self._end(link, replies.error(condition, text))

    def _end(self, link: Link, error: Encoded | None = None) -> None:
        if not link.ending:
            link.end(partial(self._send_detach, link, error))

    def _send_detach(self, link: Link, error: Encoded | None) -> None:
        if self._links.get(link.handle) is link:
            self.remove(link)
            self._send_in_order(replies.detach_link(link.handle, error), window=0)

    def _send_in_order(self, body: bytes, window: int) -> None:
        self._held_back.append((body, window))
        self._send_held_back()

    def _send_held_back(self) -> None:
        while self._held_back and self._held_back[0][1] <= self._remote_window:
            body, window = self._held_back.popleft()
            self._remote_window -= window
            self._next_outgoing_id += window
            self.send(body)

    # Receiving

    def _on_attach(self, fields: Fields, body: bytes, at: int, _end: int) -> None:
        attach = Attach.read(fields, body, at)
        known = self._links.get(attach.handle)
        if known is not None:
            self.remove(known)
        try:
            link = make_link(self, self._namespace, attach)
        except OperationError as error:
            # An attach must be answered before it can be refused (AMQP 1.0 §2.6.3).
            self.send(replies.refuse_link(attach))
            self.send(replies.detach_link(attach.handle, replies.error(error.condition, str(error))))
            return
        self._links[link.handle] = link
        self._connection.had_link = True
        self.send(replies.attach_link(attach, link.max_message_bytes, link.capabilities))
        if isinstance(link, IncomingLink):
            link.grant_credit()

    def _on_detach(self, fields: Fields, _body: bytes, _at: int, _end: int) -> None:
        link = self._links.get(fields.number(0))
        if link is not None:
            self._end(link)

    def _on_flow(self, fields: Fields, _body: bytes, _at: int, _end: int) -> None:
        flow = Flow.read(fields)
        known = replies.FIRST_DELIVERY_ID if flow.next_incoming_id is None else flow.next_incoming_id
        self._remote_window = known + flow.incoming_window - self._next_outgoing_id
        if self._held_back:
            self._send_held_back()
            self.resume()
        link = self._links.get(flow.handle) if flow.handle is not None else None
        if link is not None:
            link.used_at = monotonic()
        if isinstance(link, OutgoingLink):
            link.on_flow(flow)

    def _on_transfer(self, fields: Fields, body: bytes, _at: int, end: int) -> None:
        self._next_incoming_id = (self._next_incoming_id + 1) & _UINT32
        transfer = Transfer.read(fields)
        link = self._links.get(transfer.handle)
        if isinstance(link, IncomingLink):
            link.used_at = monotonic()
            link.on_transfer(transfer, body[end:])

    def _on_disposition(self, fields: Fields, body: bytes, at: int, _end: int) -> None:
        disposition = Disposition.read(fields, body, at)
        if not disposition.from_receiver:
            return
        for delivery_id in self._concerned(disposition):
            link = self._unsettled[delivery_id]
            link.used_at = monotonic()
            if link.on_outcome(delivery_id, disposition):
                del self._unsettled[delivery_id]

    def _concerned(self, disposition: Disposition) -> list[int]:
        span = range(disposition.first, disposition.last + 1)
        if len(span) < len(self._unsettled):
            return [delivery_id for delivery_id in span if delivery_id in self._unsettled]
        return [delivery_id for delivery_id in self._unsettled if delivery_id in span]
