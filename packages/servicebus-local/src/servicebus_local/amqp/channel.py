"""An AMQP session: its links, its two windows, and the link of each delivery.

It is called a channel here because "session" means something else in Service Bus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from servicebus_local.amqp import replies
from servicebus_local.amqp.attaching import make_link
from servicebus_local.amqp.links import IncomingLink, Link, OutgoingLink
from servicebus_local.amqp.performatives import Attach, Disposition, Fields, Flow, Performative, Transfer
from servicebus_local.broker.namespace import Namespace
from servicebus_local.codec.values import Encoded
from servicebus_local.errors import OperationError

#: Space for the performative before a frame's part of a message, in bytes.
_TRANSFER_OVERHEAD = 80
_UINT32 = 0xFFFFFFFF

type Handler = Callable[[Fields, bytes, int, int], None]


class ChannelConnection(Protocol):
    """The connection that a channel belongs to, as far as channels need it."""

    #: Largest frame that the client accepts, in bytes.
    max_frame_bytes: int

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
        self._held_back: deque[bytes] = deque()
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
        link.close()

    def transfer(self, link: OutgoingLink, tag: bytes, payload: bytes, *, settled: bool) -> int:
        """Send a message, in several frames if it is large, and return its delivery id."""
        delivery_id: int = self._next_delivery_id
        self._next_delivery_id += 1
        if not settled:
            self._unsettled[delivery_id] = link
        part = self._connection.max_frame_bytes - _TRANSFER_OVERHEAD
        sent_id: int | None = delivery_id
        for start in range(0, len(payload), part):
            more = start + part < len(payload)
            head = replies.transfer_head(link.handle, sent_id, tag, settled=settled, more=more)
            self._send_in_window(head + payload[start : start + part])
            sent_id = None
        return delivery_id

    def flow(self, link: Link, credit: int, *, drain: bool = False) -> None:
        """Send a link's credit."""
        session = replies.session_flow(self._next_incoming_id, self._next_outgoing_id)
        self.send(replies.link_flow(session, link.handle, link.delivery_count, credit, drain=drain))

    def disposition(self, delivery_id: int, state: Encoded, *, from_receiver: bool) -> None:
        """Send the outcome of a delivery."""
        self.send(replies.disposition(delivery_id, state, from_receiver=from_receiver))

    def detach(self, link: Link, condition: str, text: str) -> None:
        """Close a link with an error."""
        self.remove(link)
        self.send(replies.detach_link(link.handle, replies.error(condition, text)))

    def _send_in_window(self, body: bytes) -> None:
        self._held_back.append(body)
        self._send_held_back()

    def _send_held_back(self) -> None:
        while self._held_back and self._remote_window > 0:
            self._remote_window -= 1
            self._next_outgoing_id += 1
            self.send(self._held_back.popleft())

    # Receiving

    def _on_attach(self, fields: Fields, body: bytes, at: int, _end: int) -> None:
        attach = Attach.read(fields, body, at)
        try:
            link = make_link(self, self._namespace, attach)
        except OperationError as error:
            # An attach must be answered before it can be refused (AMQP 1.0 §2.6.3).
            self.send(replies.refuse_link(attach))
            self.send(replies.detach_link(attach.handle, replies.error(error.condition, str(error))))
            return
        self._links[link.handle] = link
        self.send(replies.attach_link(attach))
        if isinstance(link, IncomingLink):
            link.grant_credit()

    def _on_detach(self, fields: Fields, _body: bytes, _at: int, _end: int) -> None:
        link = self._links.get(fields.number(0))
        if link is not None:
            self.remove(link)
            self.send(replies.detach_link(link.handle))

    def _on_flow(self, fields: Fields, _body: bytes, _at: int, _end: int) -> None:
        flow = Flow.read(fields)
        known = replies.FIRST_DELIVERY_ID if flow.next_incoming_id is None else flow.next_incoming_id
        self._remote_window = known + flow.incoming_window - self._next_outgoing_id
        self._send_held_back()
        link = self._links.get(flow.handle) if flow.handle is not None else None
        if isinstance(link, OutgoingLink):
            link.on_flow(flow)

    def _on_transfer(self, fields: Fields, body: bytes, _at: int, end: int) -> None:
        self._next_incoming_id = (self._next_incoming_id + 1) & _UINT32
        transfer = Transfer.read(fields)
        link = self._links.get(transfer.handle)
        if isinstance(link, IncomingLink):
            link.on_transfer(transfer, body[end:])

    def _on_disposition(self, fields: Fields, _body: bytes, _at: int, _end: int) -> None:
        disposition = Disposition.read(fields)
        if not disposition.from_receiver:
            return
        first = max(disposition.first, replies.FIRST_DELIVERY_ID)
        for delivery_id in range(first, min(disposition.last, self._next_delivery_id) + 1):
            link = self._unsettled.get(delivery_id)
            if link is not None and link.on_outcome(delivery_id, disposition):
                del self._unsettled[delivery_id]
