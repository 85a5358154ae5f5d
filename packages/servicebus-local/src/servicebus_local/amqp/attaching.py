"""Opens links: finds the node of an address, and answers or refuses the attach (AMQP 1.0 §2.6.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from servicebus_local.errors import NotAllowed, Refused

from . import replies
from .cbs import CBS_ADDRESS, CbsRequestLink
from .links import AnswerLink, IncomingLink, Link
from .management_link import MANAGEMENT_SUFFIX, ManagementRequestLink
from .performatives import Attach
from .queue_links import QueueReceiverLink, QueueSenderLink

if TYPE_CHECKING:
    from .channel import Channel


def open_link(channel: Channel, attach: Attach) -> None:
    """Attach a link, or refuse it with the condition that the client turns into an exception."""
    terminus = attach.source if attach.client_receives else attach.target
    address = node_address(terminus.address)
    try:
        link = _link(channel, attach, address)
    except Refused as refusal:
        channel.send(replies.refuse_link(attach))
        error = replies.error(refusal.condition, str(refusal))
        channel.send(replies.detach_link(attach.handle, error))
        return
    link.address = address
    channel.add(link)
    channel.send(replies.attach_link(attach))
    if isinstance(link, IncomingLink):
        link.grant_credit()


def node_address(address: str | None) -> str:
    """Return 'orders/$management' for 'amqps://host:port/Orders/$management'; case does not matter."""
    if address is None:
        return ""
    path = urlsplit(address).path if "://" in address else address
    return path.strip("/").lower()


def _link(channel: Channel, attach: Attach, address: str) -> Link:
    if address == CBS_ADDRESS:
        # Never refuse this one: the client would wait for ever.
        return AnswerLink(channel, attach) if attach.client_receives else CbsRequestLink(channel, attach)
    queue, entity = channel.service.namespace.entity(address.removesuffix(MANAGEMENT_SUFFIX))
    if address.endswith(MANAGEMENT_SUFFIX):
        if attach.client_receives:
            return AnswerLink(channel, attach)
        return ManagementRequestLink(channel, attach, queue, entity)
    entity.check_busy()
    if not attach.client_receives:
        return QueueSenderLink(channel, attach, queue, entity)
    if attach.source.wants_session:
        raise NotAllowed(
            "A sessionful message receiver cannot be created on an entity that does not require sessions. "
            "(The local broker has no sessions.)"
        )
    return QueueReceiverLink(channel, attach, queue, entity)
