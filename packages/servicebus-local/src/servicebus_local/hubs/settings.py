"""The settings of an event hub."""

from __future__ import annotations

from dataclasses import dataclass

from servicebus_local.broker.settings import MEGABYTE

#: Names of hubs and consumer groups that can be deployed to Event Hubs.
HUB_NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,48}[A-Za-z0-9])?$"
#: The consumer group that every hub has.
DEFAULT_GROUP = "$default"
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class HubSettings:
    """A hub's properties. Durations in milliseconds."""

    partition_count: int = 4
    retention_ms: int = 168 * _HOUR_MS
    #: Consumer groups beside `$Default`.
    consumer_groups: tuple[str, ...] = ()
    #: Maximum size of all partitions together on this machine's disk: Azure has no such limit.
    max_bytes: int = 4096 * MEGABYTE
