"""What `GET /hubs` says of a hub."""

from __future__ import annotations

from servicebus_local.hubs.hub import Hub
from servicebus_local.hubs.partition import Partition

_COUNTERS = ("received", "expired", "links")


def hub_figures(hub: Hub) -> dict[str, object]:
    """Return a hub's partitions, what they keep and who reads them, and counters since the broker started."""
    partitions = [_partition_figures(hub, partition) for partition in hub.partitions]
    return {
        "name": hub.name,
        "partitions": partitions,
        **{name: hub.counters[name] for name in _COUNTERS},
    }


def _partition_figures(hub: Hub, partition: Partition) -> dict[str, object]:
    return {
        "partition": str(partition.number),
        "begin_sequence_number": partition.begin,
        "last_sequence_number": partition.last_number,
        "last_offset": str(partition.last_offset),
        "bytes": partition.kept_bytes,
        "readers": [
            {"consumer_group": group, "epoch": reader.epoch}
            for (group, number), readers in hub.readers.items()
            for reader in readers
            if number == partition.number
        ],
    }
