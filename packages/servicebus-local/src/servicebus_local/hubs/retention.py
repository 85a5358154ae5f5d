"""Deletes the events whose retention has passed, a part at a time: other clients must not wait for it."""

from __future__ import annotations

from collections.abc import Sequence

from servicebus_local.broker.timers import TimerHeap, now_ms
from servicebus_local.hubs.hub import Hub

_LOOK_MS = 10_000
#: Time between two parts, and events of one partition in a part.
_PAUSE_MS, _PART = 50, 1_000


class Retention:
    """Checks all partitions at intervals, as long as its timers run."""

    def __init__(self, hubs: Sequence[Hub], timers: TimerHeap) -> None:
        self._hubs = hubs
        self._timers = timers
        self.look()

    def look(self) -> None:
        """Delete a part of the expired events, and schedule the next check."""
        more = [self._shorten(hub) for hub in self._hubs]
        self._timers.after(_PAUSE_MS if any(more) else _LOOK_MS, self.look)

    def _shorten(self, hub: Hub) -> bool:
        """Delete a part of a hub's expired events, and return whether more remain."""
        since_ms = now_ms() - hub.settings.retention_ms
        fair_share = hub.settings.max_bytes // len(hub.partitions)
        more = False
        for partition in hub.partitions:
            first = partition.first_kept(since_ms, fair_share)
            dropped = partition.drop_before(min(first, partition.begin + _PART))
            hub.counters["expired"] += dropped
            more = more or partition.begin < first
        return more
