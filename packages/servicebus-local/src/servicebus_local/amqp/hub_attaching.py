"""Makes the link for an attach to an event hub, by its address."""

from __future__ import annotations

from servicebus_local.amqp.hub_links import HubReceiverLink, HubSenderLink, ReadingPlace
from servicebus_local.amqp.links import Link, LinkChannel
from servicebus_local.amqp.performatives import Attach
from servicebus_local.errors import EntityNotFoundError
from servicebus_local.hubs.hub import Hub
from servicebus_local.hubs.start import Start


def make_hub_link(channel: LinkChannel, attach: Attach, hub: Hub, address: str) -> Link:
    """Return the link to a hub, or to a partition of it. Raises OperationError."""
    hub.check_busy()
    match (attach.client_receives, address.split("/")[1:]):
        case (False, []):
            return HubSenderLink(channel, attach, hub, None)
        case (False, ["partitions", partition]):
            return HubSenderLink(channel, attach, hub, hub.partition_number(partition))
        case (True, ["consumergroups", group, "partitions", partition]):
            return _receiver(channel, attach, hub, group, hub.partition_number(partition))
        case _:
            raise EntityNotFoundError(f"The messaging entity '{address}' could not be found.")


def _receiver(channel: LinkChannel, attach: Attach, hub: Hub, group: str, number: int) -> Link:
    hub.check_group(group)
    partition = hub.partitions[number]
    first = partition.first_after(Start.read(attach.source.selector))
    place = ReadingPlace(partition, hub.readers[group, number], first)
    return HubReceiverLink(channel, attach, hub, place)
