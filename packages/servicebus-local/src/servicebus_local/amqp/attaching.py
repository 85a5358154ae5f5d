"""Makes the link for an attach: finds the node by its address, and refuses what the node can't do."""

from __future__ import annotations

from servicebus_local.amqp.links import AnswerLink, Link, LinkChannel
from servicebus_local.amqp.performatives import Attach
from servicebus_local.amqp.queue_links import QueueReceiverLink, QueueSenderLink
from servicebus_local.amqp.request_links import (
    MANAGEMENT_SUFFIX,
    CbsRequestLink,
    ManagementRequestLink,
    node_address,
)
from servicebus_local.broker.namespace import Namespace
from servicebus_local.errors import NotAllowedError, NotSupportedError

_CBS_ADDRESS = "$cbs"


def make_link(channel: LinkChannel, namespace: Namespace, attach: Attach) -> Link:
    """Return the link that a client asked for. Raises OperationError."""
    terminus = attach.source if attach.client_receives else attach.target
    address = node_address(terminus.address)
    link = _link(channel, namespace, attach, address)
    link.address = address
    return link


def _link(channel: LinkChannel, namespace: Namespace, attach: Attach, address: str) -> Link:
    if address == _CBS_ADDRESS:
        # Never refuse this one: the client would wait forever.
        if attach.client_receives:
            return AnswerLink(channel, attach)
        return CbsRequestLink(channel, attach, namespace)
    if attach.target.is_coordinator:
        raise NotSupportedError("The local broker has no transactions.")
    queue, entity = namespace.entity(address.removesuffix(MANAGEMENT_SUFFIX))
    if address.endswith(MANAGEMENT_SUFFIX):
        if attach.client_receives:
            return AnswerLink(channel, attach)
        return ManagementRequestLink(channel, attach, queue, entity)
    entity.check_busy()
    if not attach.client_receives:
        return QueueSenderLink(channel, attach, queue, entity)
    if attach.source.wants_session:
        raise NotAllowedError(
            "A sessionful message receiver cannot be created on an entity that does not require sessions. "
            "(The local broker has no sessions.)"
        )
    return QueueReceiverLink(channel, attach, queue, entity)
