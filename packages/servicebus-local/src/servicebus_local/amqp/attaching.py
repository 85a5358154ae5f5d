"""Makes the link for an attach: finds the node by its address, and refuses unsupported links."""

from __future__ import annotations

from servicebus_local.amqp.hub_links import HubReceiverLink, HubSenderLink, ReadingPlace
from servicebus_local.amqp.hub_management import HubManagementLink
from servicebus_local.amqp.links import AnswerLink, Link, LinkChannel
from servicebus_local.amqp.performatives import Attach
from servicebus_local.amqp.queue_links import QueueReceiverLink, QueueSenderLink
from servicebus_local.amqp.request_links import (
    MANAGEMENT_SUFFIX,
    CbsRequestLink,
    ManagementRequestLink,
    node_address,
)
from servicebus_local.errors import EntityNotFoundError, NotAllowedError, NotSupportedError
from servicebus_local.hubs.hub import Hub
from servicebus_local.hubs.partition import Start
from servicebus_local.namespace import Namespace

_CBS_ADDRESS = "$cbs"
#: The management node of all hubs; a queue has its own.
_HUBS_ADDRESS = "$management"


def make_link(channel: LinkChannel, namespace: Namespace, attach: Attach) -> Link:
    """Return the link that a client requested. Raises OperationError."""
    terminus = attach.source if attach.client_receives else attach.target
    address = node_address(terminus.address)
    link = _link(channel, namespace, attach, address)
    link.address = address
    return link


def _link(channel: LinkChannel, namespace: Namespace, attach: Attach, address: str) -> Link:
    if address in {_CBS_ADDRESS, _HUBS_ADDRESS}:
        return _request_link(channel, namespace, attach, address)
    if attach.target.is_coordinator:
        raise NotSupportedError("The local broker has no transactions.")
    hub = namespace.hub(address)
    if hub is not None:
        return _hub_link(channel, attach, hub, address)
    return _queue_link(channel, namespace, attach, address)


def _request_link(channel: LinkChannel, namespace: Namespace, attach: Attach, address: str) -> Link:
    """Return a link for requests; never refuse it, because the client would wait forever."""
    if attach.client_receives:
        return AnswerLink(channel, attach)
    if address == _CBS_ADDRESS:
        return CbsRequestLink(channel, attach, namespace)
    return HubManagementLink(channel, attach, namespace)


def _queue_link(channel: LinkChannel, namespace: Namespace, attach: Attach, address: str) -> Link:
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


def _hub_link(channel: LinkChannel, attach: Attach, hub: Hub, address: str) -> Link:
    """Return the link to a hub, or to a partition of it. Raises OperationError."""
    hub.check_busy()
    match (attach.client_receives, address.split("/")[1:]):
        case (False, []):
            return HubSenderLink(channel, attach, hub, None)
        case (False, ["partitions", partition]):
            return HubSenderLink(channel, attach, hub, hub.partition_number(partition))
        case (True, ["consumergroups", group, "partitions", partition]):
            return _hub_receiver(channel, attach, hub, group, hub.partition_number(partition))
        case _:
            raise EntityNotFoundError(f"The messaging entity '{address}' could not be found.")


def _hub_receiver(channel: LinkChannel, attach: Attach, hub: Hub, group: str, number: int) -> Link:
    hub.check_group(group)
    partition = hub.partitions[number]
    first = partition.first_after(Start.read(attach.source.selector))
    place = ReadingPlace(partition, hub.readers[group, number], first)
    return HubReceiverLink(channel, attach, hub, place)
